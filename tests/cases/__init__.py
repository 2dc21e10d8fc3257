"""Small policies, each with one thing that goes wrong on the way out, and controls with nothing wrong.

Each file has `build()`, `example_inputs()`, `inputs(seed)`, sometimes `dynamic_shapes`, and `EXPECT`, whose `findings`
are what a good audit says. They follow public bug reports, which `EXPECT["sources"]` names.
"""
