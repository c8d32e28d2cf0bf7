"""What is compared: models of published sizes with random weights, saved once with their inputs and what PyTorch
computes for them. Also run as a program, in the peers' environment: `python models.py NAME FOLDER` makes the folder."""

import sys
from pathlib import Path

HIDDEN, INNER, LAYERS, HEADS = 768, 3072, 12, 12


def encoder_flops(rows):
    """Multiplications and additions of one text or image of `rows` rows through all layers."""
    return LAYERS * (2 * rows * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER) + 4 * rows * rows * HIDDEN)


def make_vit(torch, transformers):
    model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))
    return model, {"pixel_values": torch.randn(1, 3, 224, 224)}


def make_bert(torch, transformers):
    model = transformers.BertModel(transformers.BertConfig())
    ids = torch.randint(0, 30522, (1, 128))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


MODELS = {
    # name: what it is, how it is made, floating-point operations of one call
    "vit-b16": ("ViT-B/16, 224 x 224, batch 1", make_vit,
                encoder_flops(197) + 2 * 196 * 768 * HIDDEN + 2 * HIDDEN * 1000),
    "bert-base-s128": ("BERT-base, 128 tokens, batch 1", make_bert, encoder_flops(128) + 2 * HIDDEN * HIDDEN),
}


def make(name, folder):
    import torch
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, inputs = MODELS[name][1](torch, transformers)
    model = model.eval()
    model.save_pretrained(folder)
    with torch.inference_mode():
        outputs = {key: value.contiguous() for key, value in model(**inputs).items()}
    save_file(inputs, folder / "inputs.safetensors")
    save_file(outputs, folder / "outputs.safetensors")

    class Plain(torch.nn.Module):
        """Positional inputs and a tuple of results, as an exporter wants them."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            return tuple(self.model(**dict(zip(inputs, values))).values())

    torch.onnx.export(Plain(), tuple(inputs.values()), folder / "model.onnx", input_names=list(inputs),
                      output_names=list(outputs), dynamo=True, external_data=False, optimize=True)
    (folder / "complete").touch()


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
