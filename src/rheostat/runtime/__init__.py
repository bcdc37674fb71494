"""Using a model, without torch: the graph of a cut model, and ONNX Runtime to run it."""
