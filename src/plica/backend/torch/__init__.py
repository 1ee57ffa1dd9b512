"""The PyTorch backend: Programs become generated Python over torch calls, inside an `nn.Module`."""
