"""FX → ONNX, and the bundle."""
