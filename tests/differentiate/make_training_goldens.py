#!/usr/bin/env python3
"""Makes goldens/training/NAME.safetensors for the training entries of models, at the weights of tests/models/goldens/NAME: fifty
batches (`input:`, the first axis is the step; fewer are taken again from the first), the gradients of all parameters at the first one (`gradient:`, by PyTorch's autograd
in f64), and the losses of fifty steps of Adam with warm-up and the rate of each (`losses`, `rates`), without dropout. Of some
also what dropout of 0.1 comes to (`dropped`): for each seed the mean of the last twenty of fifty losses on the first two batches.

    python make_training_goldens.py FOLDER [MODEL...]  needs torch, transformers, safetensors; FOLDER: the folder `pytorch` of
                                                  https://github.com/kimiyoung/transformer-xl"""

import copy
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent / "goldens" / "training"
FOLDERS = Path(__file__).resolve().parents[1] / "models" / "goldens"
sys.path.append(str(FOLDERS.parent / "makers"))
STEPS, WARM = 50, 10


def draw(below, *shape):
    return torch.randint(0, below, (STEPS, *shape))


def some(labels, share):
    """A share of them, and -100 for the others; the first stays."""
    kept = torch.rand(labels.shape) < share
    kept[:, 0, 0] = True
    return torch.where(kept, labels, -100)


def mask(batch, length):
    return (torch.arange(length) < torch.randint(length // 2, length + 1, (STEPS, batch, 1))).long()


def warm_up(peak):
    return torch.tensor([peak * min(t / WARM, (WARM / t) ** 0.5) for t in range(1, STEPS + 1)])


def train(model, batches, loss, rates, betas, eps):
    optimiser = torch.optim.Adam(model.parameters(), lr=1, betas=betas, eps=eps)
    losses = []
    for t, rate in enumerate(rates):
        for group in optimiser.param_groups:
            group["lr"] = float(rate)
        optimiser.zero_grad()
        value = loss(model, {k: v[t % len(v)] for k, v in batches.items()})
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses


def make(name, model, batches, loss, betas=(0.9, 0.999), eps=1e-8, peak=2e-3, renamed=lambda name: name, fixed=(),
         dropping=None, seeds=20):
    """`loss` of a model and a batch. `renamed`: the name in the weights file of a parameter of the model. `fixed`: of
    tensors in that file that no step changes. `dropping`: the same model with dropout, and `seeds` how often it is trained."""
    weights = load_file(FOLDERS / name / "model.safetensors")
    out = {}
    exact = copy.deepcopy(model).double()
    value = loss(exact, {k: v[0].double() if v.is_floating_point() else v[0] for k, v in batches.items()})
    value.backward()
    gradients = {f"gradient:{renamed(n)}": p.grad.float() for n, p in exact.named_parameters() if p.grad is not None}
    gradients |= {f"gradient:{k}": torch.zeros_like(weights[k]) for k in fixed}
    missing = {f"gradient:{k}" for k in weights} ^ set(gradients)
    rates = warm_up(peak)
    losses = train(model, batches, loss, rates, betas, eps)
    if dropping:
        ends = []
        for seed in range(1, seeds + 1):
            torch.manual_seed(seed)
            ends.append(train(copy.deepcopy(dropping).train(), {k: v[:2] for k, v in batches.items()}, loss, rates, betas, eps)[-20:])
        out["dropped"] = torch.tensor(ends).mean(1)
    out |= gradients | {f"input:{k}": v.to(torch.int32) if not v.is_floating_point() else v for k, v in batches.items()}
    out |= {"losses": torch.tensor(losses), "rates": rates.float()}
    save_file({k: v.contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")
    (HERE / f"{name}.safetensors").chmod(0o644)
    print(f"{name:20} {losses[0]:.4f} … {losses[-1]:.4f}   without a gradient: {sorted(missing) or 'none'}")


def asked(logits, labels, smoothing=0.0):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), label_smoothing=smoothing)


def without_dropout(kind, name):
    return kind.from_pretrained(FOLDERS / name, attn_implementation="eager").eval()


def bert():
    name = "bert_loss"
    model = transformers.BertForPreTraining(transformers.BertConfig.from_pretrained(FOLDERS / name, attn_implementation="eager")).eval()
    model.load_state_dict(load_file(FOLDERS / name / "model.safetensors"), strict=False)
    model.tie_weights()
    b, s = 4, 12
    inputs = {"input_ids": draw(52, b, s) + 1, "token_type_ids": draw(2, b, s), "attention_mask": mask(b, s),
              "labels": some(draw(53, b, s), 0.3), "next_sentence_label": draw(2, b)}  # fmt: skip
    make(name, model, inputs, lambda model, batch: model(**batch).loss)


def gpt2():
    model = without_dropout(transformers.GPT2LMHeadModel, "gpt2")

    def loss(model, batch):
        ids, seen = batch["input_ids"], batch["attention_mask"]
        labels = torch.where(seen[:, 1:] != 0, ids[:, 1:], -100)
        return asked(model(input_ids=ids, attention_mask=seen).logits[:, :-1], labels)

    make("gpt2", model, {"input_ids": draw(61, 3, 11), "attention_mask": mask(3, 11)}, loss, dropping=copy.deepcopy(model))


def marian():
    """The paper's betas and smoothed labels. transformers does not learn the words' row of padding, nor the output's bias."""
    model = without_dropout(transformers.MarianMTModel, "marian")
    model.register_parameter("bias", torch.nn.Parameter(model.final_logits_bias.clone()))
    del model._buffers["final_logits_bias"]
    for table in (model.model.shared, model.model.encoder.embed_tokens, model.model.decoder.embed_tokens):
        table.padding_idx = None
    for part in (model.model.encoder, model.model.decoder):
        part.embed_positions.requires_grad_(False)
    names = {"bias": "final_logits_bias"}

    def loss(model, batch):
        hidden = model.model(**{k: v for k, v in batch.items() if k != "labels"}).last_hidden_state
        return asked(model.lm_head(hidden) + model.bias, batch["labels"], 0.1)

    b, s, t = 3, 9, 7
    inputs = {"input_ids": draw(53, b, s), "attention_mask": mask(b, s), "decoder_input_ids": draw(53, b, t), "labels": some(draw(53, b, t), 0.8)}
    make("marian", model, inputs, loss, betas=(0.9, 0.98), eps=1e-9, renamed=lambda name: names.get(name, name),
         dropping=copy.deepcopy(model), seeds=5)


def vit():
    model = without_dropout(transformers.ViTForImageClassification, "vit_classifier")
    inputs = {"pixel_values": torch.randn(4, 2, 3, 30, 30).to(torch.bfloat16).float(), "labels": draw(11, 2)[:4]}
    names = {"layers.": "encoder.layer.", "attention.o_proj": "attention.output.dense", "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense"}
    names |= {f"attention.{x[0]}_proj": f"attention.attention.{x}" for x in ("query", "key", "value")}

    def renamed(name):
        for new, old in names.items():
            name = name.replace(new, old)
        return name

    make("vit_classifier", model, inputs, lambda model, batch: asked(model(batch["pixel_values"]).logits, batch["labels"]), peak=3e-4,
         renamed=renamed)


def seq2seq():
    import seq2seq as maker

    model = maker.Model("lstm", True, alignment="general", input_feeding=True)
    model.load_state_dict(load_file(FOLDERS / "seq2seq_general" / "model.safetensors"))

    def loss(model, batch):
        model.encode(batch["input_ids"], batch["lengths"].long())
        model.fed = model.fed.to(model.generator.weight.dtype)
        logits = torch.stack([model.step(batch["decoder_input_ids"][:, i]) for i in range(6)], 1)
        return asked(logits, batch["labels"])

    b, s, t = 3, 8, 6
    inputs = {"input_ids": draw(37, b, s), "lengths": torch.randint(1, s + 1, (STEPS, b)), "decoder_input_ids": draw(41, b, t),
              "labels": some(draw(41, b, t), 0.8)}  # fmt: skip
    dropping = copy.deepcopy(model)
    dropping.encoder.rnn.dropout = dropping.decoder.rnn.dropout = 0.1
    make("seq2seq_general", model, inputs, loss, dropping=dropping)


def lstm():
    import seq2seq as maker

    model = maker.Model("lstm", True)
    model.load_state_dict(load_file(FOLDERS / "seq2seq_lstm" / "model.safetensors"))

    def loss(model, batch):
        model.encode(batch["input_ids"], batch["lengths"].long())
        return asked(torch.stack([model.step(batch["decoder_input_ids"][:, i]) for i in range(6)], 1), batch["labels"])

    b, s, t = 3, 8, 6
    inputs = {"input_ids": draw(37, b, s), "lengths": torch.randint(1, s + 1, (STEPS, b)), "decoder_input_ids": draw(41, b, t),
              "labels": some(draw(41, b, t), 0.8)}  # fmt: skip
    make("seq2seq_lstm", model, inputs, loss)


def vanilla():
    import vanilla_lm as maker

    torch.backends.mha.set_fastpath_enabled(False)
    model = maker.Model(True)
    model.load_state_dict(load_file(FOLDERS / "vanilla_lm" / "model.safetensors"))

    def loss(model, batch):  # its mask has the type of what is computed
        torch.set_default_dtype(model.generator.weight.dtype)
        value = asked(model(batch["input_ids"]), batch["labels"])
        torch.set_default_dtype(torch.float32)
        return value

    make("vanilla_lm", model, {"input_ids": draw(31, 3, 12), "labels": some(draw(31, 3, 12), 0.8)}, loss, peak=3e-4)


def torch_transformer(name="torch_transformer_is_causal"):
    config = json.loads((FOLDERS / name / "config.json").read_text())
    keys = ("d_model", "nhead", "dim_feedforward", "num_encoder_layers", "num_decoder_layers", "batch_first", "norm_first")
    model = torch.nn.Transformer(**{k: config[k] for k in keys if k in config}, dropout=0)
    model.load_state_dict(load_file(FOLDERS / name / "model.safetensors"))

    def loss(model, batch):
        forbid = lambda rows, columns: torch.ones(rows, columns, dtype=torch.bool).triu(1)  # noqa: E731
        padding = batch["src_key_padding_mask"].bool()
        masks = {f"{side}_mask": forbid(rows, columns) for side, rows, columns in (("src", 9, 9), ("tgt", 7, 7), ("memory", 7, 9))
                 if side == "tgt" or config.get(f"{side}_is_causal")}  # fmt: skip
        y = model(batch["src"], batch["tgt"], **masks, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        return ((y - batch["wanted"]) ** 2).mean()

    inputs = {k: torch.randn(4, 3, n, 20) for k, n in (("src", 9), ("tgt", 7), ("wanted", 7))}
    inputs["src_key_padding_mask"] = 1 - mask(3, 9)[:4]
    make(name, model, inputs, loss)


def setr():
    sys.path.append(str(FOLDERS.parent))
    import make_vision_goldens as maker

    name = "setr_pup"
    model = maker.Setr(json.loads((FOLDERS / name / "config.json").read_text())).eval()
    weights = load_file(FOLDERS / name / "model.safetensors")
    model.load_state_dict(weights, strict=False)
    labels = draw(5, 2, 48, 48)[:4]
    inputs = {"pixel_values": torch.randn(4, 2, 3, 48, 48).to(torch.bfloat16).float(), "labels": torch.where(torch.rand(labels.shape) < 0.9, labels, 255)}

    def loss(model, batch):
        logits = model(batch["pixel_values"])["logits"]
        return F.cross_entropy(logits.flatten(0, 2), batch["labels"].flatten(), ignore_index=255)

    make(name, model, inputs, loss, peak=3e-4, fixed=[k for k in weights if "running" in k])


def detr():
    """The assignment is given. All of the backbone is trained but its norms, which transformers fixes."""
    from transformers.loss.loss_for_object_detection import center_to_corners_format, generalized_box_iou

    name = "detr_bottleneck"
    model = without_dropout(transformers.DetrForObjectDetection, name).requires_grad_(True)
    weights = load_file(FOLDERS / name / "model.safetensors")
    names = {}
    for own, value in model.named_parameters():
        names[own], = (k for k, w in weights.items() if w.shape == value.shape and torch.equal(w, value))
    classes = torch.where(torch.rand(STEPS, 2, 7) < 0.4, draw(5, 2, 7), 5)[:4]
    classes[:, :, 0] = 2
    boxes = torch.cat([torch.rand(4, 2, 7, 2) * 0.6 + 0.2, torch.rand(4, 2, 7, 2) * 0.3 + 0.1], -1)
    seen = torch.ones(4, 2, 65, 70, dtype=torch.int64)
    seen[:, 1, :, 50:] = 0
    inputs = {"pixel_values": torch.randn(4, 2, 3, 65, 70).to(torch.bfloat16).float(), "pixel_mask": seen, "labels": classes, "boxes": boxes}

    def loss(model, batch):
        model.model.backbone.to(batch["pixel_values"].dtype)
        done = model(pixel_values=batch["pixel_values"], pixel_mask=batch["pixel_mask"])
        weight = torch.tensor([1.0] * 5 + [0.1], dtype=done.logits.dtype)
        found = batch["labels"] != 5
        own, wanted = done.pred_boxes[found], batch["boxes"][found]
        overlap = generalized_box_iou(center_to_corners_format(own), center_to_corners_format(wanted)).diag()
        off = 5 * (own - wanted).abs().sum() + 2 * (1 - overlap).sum()
        return F.cross_entropy(done.logits.transpose(1, 2), batch["labels"], weight) + off / len(own)

    make(name, model, inputs, loss, peak=3e-4, renamed=names.__getitem__, fixed=[k for k in weights if k not in names.values()])


def transformer_xl(folder):
    """Over segments: the memory goes on from step to step. The code gives the loss of each word. A cluster's projections into and
    out of the model's width are two parameters, as the weights file has them."""
    sys.path[:0] = [folder, f"{folder}/utils"]
    torch.Tensor.byte = torch.Tensor.bool
    import mem_transformer

    name = "transfo_xl_authors"
    config = json.loads((FOLDERS / name / "config.json").read_text())
    sizes = {k: config[k] for k in ("n_layer", "n_head", "d_model", "d_head", "d_inner", "d_embed", "div_val", "mem_len", "cutoffs", "clamp_len", "same_length", "pre_lnorm")}
    model = mem_transformer.MemTransformerLM(config["vocab_size"], **sizes, dropout=0, dropatt=0, tie_weight=True,
                                             tie_projs=[False] * 4, tgt_len=1, ext_len=0)  # fmt: skip
    model.load_state_dict(load_file(FOLDERS / name / "model.safetensors"), strict=False)
    memory = {}

    def loss(model, batch):
        value, *after = model(batch["input_ids"].T.contiguous(), batch["labels"].T.contiguous(), *memory.get(id(model), []))
        memory[id(model)] = after
        return value.mean()

    make(name, model, {"input_ids": draw(43, 2, 6), "labels": draw(43, 2, 6)}, loss, peak=3e-4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    HERE.mkdir(exist_ok=True)
    makers = (bert, gpt2, marian, vit, seq2seq, transformer_xl, lstm, vanilla, torch_transformer, setr, detr)
    for seed, maker in enumerate(makers):
        torch.manual_seed(seed)
        if sys.argv[2:] and maker.__name__ not in sys.argv[2:]:
            continue
        maker(*sys.argv[1:2] * (maker is transformer_xl))
