"""How far a golden's results may be off, as shares of the largest value: docs/testing.md says why. The tests and the folder that
bench/gpu/run makes go by it."""

F32 = 2e-4  # float32 sums in another order, over several layers
# With products in bf16, mean and largest distance, on CPUs as on GPUs. Further off are results that are small beside
# what they are sums of, and what a deep ResNet of random weights or a memory in which two keys weigh nearly the same makes of a rounding.
NARROW = (0.003, 0.03)
NARROW_OF = {"detr": (0.01, 0.03), "detr_resnet18": (0.04, 0.2), "detr_resnet34": (0.04, 0.2), "deit": (0.005, 0.03),
             "bert_next_sentence": (0.01, 0.03), "bert_pretraining": (0.01, 0.03), "transfo_xl": (0.01, 0.25),
             "transfo_xl_authors": (0.01, 0.1)}  # fmt: skip
WHOLE = 0.04  # of whole numbers, such as the best class of a pixel, that may differ in bf16


def narrow(golden):
    """Mean and largest distance allowed of a golden in bf16."""
    return NARROW_OF.get(golden) or NARROW_OF.get(golden.split("_")[0]) or NARROW
