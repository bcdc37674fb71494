"""Using a model: onnxruntime."""
