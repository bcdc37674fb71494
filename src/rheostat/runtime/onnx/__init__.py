"""ONNX: the graph of a cut model, ONNX Runtime to run it, and exporting it for other runtimes."""
