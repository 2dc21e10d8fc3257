"""What the error messages of targets' own tools mean; `graphaudit explain CODE` prints them."""
