"""Using a model without torch: predicting words, measuring quality, and ONNX Runtime underneath (`onnx`)."""
