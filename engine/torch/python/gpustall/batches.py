"""Measures a batch: its samples, and its tensors."""


def samples(data, depth=4):
    """Returns the number of samples in a batch: the length of its first tensor."""
    shape = getattr(data, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 1
    if depth:
        if callable(getattr(data, "values", None)):
            data = list(data.values())
        if isinstance(data, (list, tuple)) and data:
            return samples(data[0], depth - 1) or len(data)
    return 0


def tensors(data, depth=4):
    """Returns the number of tensors in a batch, their bytes, and how many of them are on a GPU."""
    if hasattr(data, "element_size") and hasattr(data, "nelement"):
        return 1, data.element_size() * data.nelement(), int(bool(getattr(data, "is_cuda", False)))
    sums = (0, 0, 0)
    if depth:
        if callable(getattr(data, "values", None)):
            data = list(data.values())
        if isinstance(data, (list, tuple)):
            for item in data:
                sums = tuple(map(sum, zip(sums, tensors(item, depth - 1))))
    return sums
