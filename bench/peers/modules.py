"""The models of models.py as PyTorch modules with random weights. `make`, in the peers' environment, makes a folder with config.json and
model.safetensors for Heddle and CTranslate2, module.pt for PyTorch, model.onnx for the others, inputs, what PyTorch computes, and
facts.json with the order of the inputs and the floating-point operations of a call."""

import json
import sys
from pathlib import Path

import torch
import transformers as t
from models import STEPS, folder_of, model_in
from safetensors.torch import save_file
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "models"))  # SETR's module is there


class Named(nn.Module):
    """Positional inputs and a tuple of results, as an exporter wants them, around a module that gives them by name."""

    def __init__(self, model, inputs, results, **more):
        super().__init__()
        self.model, self.names, self.results, self.more = model, list(inputs), results, more

    def forward(self, *values):
        done = self.model(**dict(zip(self.names, values)), **self.more)
        return tuple(done[name] for name in self.results)


class Search(nn.Module):
    """transformers' generate."""

    def __init__(self, model, inputs, beams):
        super().__init__()
        self.model, self.names, self.beams = model, list(inputs), beams

    def forward(self, *values):
        return (self.model.generate(**dict(zip(self.names, values)), max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False,
                                    num_beams=self.beams),)


class Whole(nn.Module):
    """torch.nn.Transformer with its causal mask."""

    def __init__(self, model, length):
        super().__init__()
        self.model = model
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, src, tgt):
        return (self.model(src, tgt, tgt_mask=self.mask, tgt_is_causal=True),)


class Own(nn.Module):
    """Attention without its weights."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, query, key, value):
        return (self.model(query, key, value, need_weights=False)[0],)


class Reader(nn.Module):
    def __init__(self, words, inputs, units, layers):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(words, inputs), nn.LSTM(units, units, layers, batch_first=True)


class Seq2seq(nn.Module):
    """The encoder's last state starts the decoder. All texts of the batch have their full length."""

    def __init__(self, words, units, layers):
        super().__init__()
        self.encoder, self.decoder = (Reader(words, units, units, layers) for _ in range(2))
        self.generator = nn.Linear(units, words)

    def forward(self, input_ids, lengths, decoder_input_ids):
        _, state = self.encoder.rnn(self.encoder.embedding(input_ids))
        return (self.generator(self.decoder.rnn(self.decoder.embedding(decoder_input_ids), state)[0]),)


class Attention(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.weight, self.combine = nn.Parameter(torch.randn(units, units) * units**-0.5), nn.Linear(2 * units, units, bias=False)


class Seq2seqAttention(nn.Module):
    """Luong's, with general alignment; the output of a step is fed to the next one."""

    def __init__(self, words, units, layers):
        super().__init__()
        self.encoder, self.decoder = Reader(words, units, units, layers), Reader(words, units, units, layers)
        self.decoder.rnn = nn.LSTM(2 * units, units, layers, batch_first=True)
        self.attention, self.generator = Attention(units), nn.Linear(units, words)

    def forward(self, input_ids, lengths, decoder_input_ids):
        memory, state = self.encoder.rnn(self.encoder.embedding(input_ids))
        keys, fed, outputs = memory @ self.attention.weight.T, memory.new_zeros(len(memory), memory.shape[2]), []
        for x in self.decoder.embedding(decoder_input_ids).unbind(1):
            h, state = self.decoder.rnn(torch.cat([x, fed], 1)[:, None], state)
            context = (keys @ h[:, 0, :, None])[..., 0].softmax(1)[:, None] @ memory
            fed = torch.tanh(self.attention.combine(torch.cat([context[:, 0], h[:, 0]], 1)))
            outputs.append(fed)
        return (self.generator(torch.stack(outputs, 1)),)


def ids(below, batch, length):
    return torch.randint(1, below, (batch, length))


def vit(batch):
    return t.ViTForImageClassification(t.ViTConfig(num_labels=1000)), {"pixel_values": torch.randn(batch, 3, 224, 224)}, None


def bert(length, batch, **sizes):
    words = ids(30522, batch, length)
    return t.BertModel(t.BertConfig(**sizes)), {"input_ids": words, "attention_mask": torch.ones_like(words)}, None


def minilm(batch):
    return bert(32, batch, hidden_size=384, num_hidden_layers=6, intermediate_size=1536)


def marian():
    return t.MarianMTModel(t.MarianConfig(
        vocab_size=37000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu", scale_embedding=True, pad_token_id=36999, eos_token_id=0,
        decoder_start_token_id=36999, forced_eos_token_id=None, max_position_embeddings=512))


def transformer(batch):
    words = ids(36999, batch, 40)
    inputs = {"input_ids": words, "attention_mask": torch.ones_like(words), "decoder_input_ids": ids(36999, batch, 40)}
    return marian(), inputs, None


def transformer_search(batch):
    words = ids(36999, batch, 40)
    return marian(), {"input_ids": words, "attention_mask": torch.ones_like(words)}, None


def torch_transformer(batch):
    model = Whole(nn.Transformer(dropout=0, batch_first=True), 128)
    return model, {"src": torch.randn(batch, 128, 512), "tgt": torch.randn(batch, 128, 512)}, {"model_type": "torch.nn.Transformer"}


def attention(batch):
    config = {"model_type": "torch.nn.MultiheadAttention", "embed_dim": 512, "num_heads": 8, "need_weights": False, "masks": "none"}
    inputs = {name: torch.randn(batch, 512, 512) for name in ("query", "key", "value")}
    return Own(nn.MultiheadAttention(512, 8, batch_first=True)), inputs, config


def gpt2(batch):
    return t.GPT2LMHeadModel(t.GPT2Config()), {"input_ids": ids(50256, batch, 128)}, None


def gpt2_greedy(batch):
    words = ids(50256, batch, 64)
    return t.GPT2LMHeadModel(t.GPT2Config()), {"input_ids": words, "attention_mask": torch.ones_like(words)}, None


def detr(batch):
    config = t.DetrConfig(backbone_config=t.ResNetConfig(out_features=["stage4"]), use_timm_backbone=False, num_labels=91)
    return t.DetrForObjectDetection(config), {"pixel_values": torch.randn(batch, 3, 480, 640)}, None


def setr(batch):
    from make_vision_goldens import Setr

    config = {"model_type": "setr", "decoder": "pup", "image_size": 256, "patch_size": 16, "num_channels": 3, "num_labels": 19,
              "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "decoder_channels": 256,
              "mla_channels": 128, "out_indices": [2, 5, 8, 11]}
    return Setr(config), {"pixel_values": torch.randn(batch, 3, 256, 256)}, config


def seq2seq(attends, batch):
    config = {"model_type": "seq2seq-attention" if attends else "seq2seq", "vocab_size": 16000, "decoder_vocab_size": 16000, "embedding_size": 1000,
              "hidden_size": 1000, "num_layers": 4, "cell": "lstm", **({"alignment": "general", "input_feeding": True} if attends else {})}
    inputs = {"input_ids": ids(16000, batch, 24), "lengths": torch.full((batch,), 24), "decoder_input_ids": ids(16000, batch, 24)}
    return (Seq2seqAttention if attends else Seq2seq)(16000, 1000, 4), inputs, config


MAKERS = {"vit-b16": vit, "bert-base-s128": lambda batch: bert(128, batch), "bert-base-s512": lambda batch: bert(512, batch),
          "minilm-s32": minilm, "transformer-base": transformer, "transformer-greedy": transformer_search,
          "transformer-beam": transformer_search, "torch-transformer": torch_transformer, "attention-s512": attention, "gpt2-s128": gpt2,
          "gpt2-greedy": gpt2_greedy, "detr-r50": detr, "setr-pup-base": setr, "seq2seq-lstm": lambda batch: seq2seq(False, batch),
          "seq2seq-attention": lambda batch: seq2seq(True, batch)}


def operations(name, module, values, batch):
    """Multiplications and additions of all products, as PyTorch counts them; it doesn't count recurrent layers."""
    from torch.utils.flop_counter import FlopCounterMode

    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # in one piece, and in inference mode, nothing would be counted
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*values)
    torch.backends.mha.set_fastpath_enabled(fused)
    lstm = 2 * 24 * 4 * 8 * 1000 * 1000 if name.startswith("seq2seq") else 0  # both sides, 24 steps of 4 layers
    fed = 24 * 8 * 1000 * 1000 if name == "seq2seq-attention" else 0  # the output of the step before, in the first layer
    return counter.get_total_flops() + batch * (lstm * 2 + fed)


def make(name, batch, cache):
    folder = folder_of(cache, name, batch)
    torch.manual_seed(1)
    t.logging.set_verbosity_error()
    t.logging.disable_progress_bar()
    wanted = model_in(folder)
    model, inputs, config = MAKERS[name](batch)
    model = model.eval()
    if config is None:
        model.save_pretrained(folder)
    else:
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        inner = model.model if isinstance(model, (Whole, Own)) else model
        save_file({key: value.contiguous() for key, value in inner.state_dict().items() if value.dim()}, folder / "model.safetensors")
    if wanted.entry == "generate":
        module = Search(model, inputs, wanted.beams)
    elif isinstance(model, (Whole, Own, Seq2seq, Seq2seqAttention)):
        module = model
    else:
        module = Named(model, inputs, wanted.results, **({"use_cache": False} if isinstance(model, (t.MarianMTModel, t.GPT2LMHeadModel)) else {}))
    module = module.eval()
    values = tuple(inputs.values())
    with torch.inference_mode():
        outputs = dict(zip(wanted.results, (value.contiguous() for value in module(*values))))
    save_file(inputs, folder / "inputs.safetensors")
    save_file(outputs, folder / "outputs.safetensors")
    torch.save(module, folder / "module.pt")
    facts = {"inputs": list(inputs), "flops": 0 if wanted.entry == "generate" else operations(name, module, values, batch)}
    if "onnxruntime" in wanted.runtimes:
        torch.onnx.export(module, values, folder / "model.onnx", input_names=list(inputs), output_names=list(outputs), dynamo=True,
                          external_data=False, optimize=True, verbose=False)
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")
    (folder / "complete").touch()
