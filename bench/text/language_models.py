"""The models of examples/text as PyTorch has them, with the same names of weights: Transformer-XL written after the authors' code, the
vanilla model of torch.nn's layers, BERT of transformers."""

import torch
import torch.nn.functional as F
from torch import nn


class RelativeAttention(nn.Module):
    """Dai et al. 2019, section 3.3, with the norm in front."""

    def __init__(self, width, heads, each, dropout, dropatt):
        super().__init__()
        self.heads, self.each, self.drop, self.dropatt = heads, each, nn.Dropout(dropout), nn.Dropout(dropatt)
        self.qkv_net = nn.Linear(width, 3 * heads * each, bias=False)
        self.r_net = nn.Linear(width, heads * each, bias=False)
        self.o_net = nn.Linear(heads * each, width, bias=False)
        self.layer_norm = nn.LayerNorm(width)
        self.r_w_bias, self.r_r_bias = (nn.Parameter(torch.zeros(heads, each)) for _ in range(2))

    def forward(self, x, memory, codes):
        """codes: of the distances from the first of the memory to the segment's last, then 0."""
        rows, new, _ = x.shape
        keys = memory.shape[1] + new
        apart = lambda t: t.unflatten(-1, (self.heads, self.each)).transpose(-3, -2)  # noqa: E731
        q, k, v = map(apart, self.qkv_net(self.layer_norm(torch.cat([memory, x], 1))).chunk(3, -1))
        q, r = q[:, :, -new:], apart(self.r_net(codes))
        content = (q + self.r_w_bias[:, None]) @ k.transpose(-2, -1)
        place = (q + self.r_r_bias[:, None]) @ r.transpose(-2, -1)
        place = F.pad(place, (1, 0)).view(rows, self.heads, keys + 1, new)[:, :, 1:].reshape(content.shape)  # the relative shift
        later = torch.ones(new, keys, dtype=torch.bool).triu(keys - new + 1)
        shares = ((content + place) / self.each**0.5).masked_fill(later, -torch.inf).softmax(-1)
        return x + self.drop(self.o_net((self.dropatt(shares) @ v).transpose(1, 2).flatten(2)))


class FeedForward(nn.Module):
    def __init__(self, width, inner, dropout):
        super().__init__()
        self.CoreNet = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, width), nn.Dropout(dropout))
        self.layer_norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.CoreNet(self.layer_norm(x))


class TransformerXL(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.width, self.memory_length, self.memory = settings["d_model"], settings["mem_len"], None
        dropout, dropatt = settings.get("dropout", 0.0), settings.get("dropatt", 0.0)
        self.drop = nn.Dropout(dropout)
        self.word_emb = nn.Module()
        self.word_emb.emb_layers = nn.ModuleList([nn.Embedding(settings["vocab_size"], self.width)])
        self.crit = nn.Module()
        self.crit.out_layers = nn.ModuleList([nn.Module()])
        self.crit.out_layers[0].bias = nn.Parameter(torch.zeros(settings["vocab_size"]))
        self.layers = nn.ModuleList()
        for _ in range(settings["n_layer"]):
            layer = nn.Module()
            layer.dec_attn = RelativeAttention(self.width, settings["n_head"], settings["d_head"], dropout, dropatt)
            layer.pos_ff = FeedForward(self.width, settings["d_inner"], dropout)
            self.layers.append(layer)

    def forward(self, ids):
        """Logits of the next segment of each row; the memory goes on from call to call."""
        table = self.word_emb.emb_layers[0].weight
        x = self.drop(table[ids] * self.width**0.5)
        memory = self.memory or [x[:, :0].detach()] * len(self.layers)
        far = torch.arange(memory[0].shape[1] + ids.shape[1] - 1, -1, -1.0)
        angles = far[:, None] / 10000 ** (torch.arange(0, self.width, 2.0) / self.width)
        codes = self.drop(torch.cat([angles.sin(), angles.cos()], -1))
        self.memory = []
        for layer, old in zip(self.layers, memory):
            self.memory.append(torch.cat([old, x.detach()], 1)[:, -self.memory_length :])
            x = layer.pos_ff(layer.dec_attn(x, old, codes))
        return F.linear(self.drop(x), table, self.crit.out_layers[0].bias)


class VanillaLM(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.length, width, layers = settings["segment_length"], settings["d_model"], settings["num_layers"]
        self.embedding = nn.Embedding(settings["vocab_size"], width)
        self.positions = nn.Embedding(self.length * layers, width)
        layer = nn.TransformerEncoderLayer(width, settings["nhead"], settings["dim_feedforward"], 0, norm_first=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.generator = nn.Linear(width, settings["vocab_size"])

    def forward(self, ids):
        x, length = self.embedding(ids), ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        for number, layer in enumerate(self.encoder.layers):
            x = layer(x + self.positions.weight[number * self.length :][:length], src_mask=mask, is_causal=True)
        return self.generator(x)


def bert(settings):
    import transformers

    sizes = {name: value for name, value in settings.items() if name not in ("model_type", "training")}
    return transformers.BertForPreTraining(transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes))


MODELS = {"transformer_xl": TransformerXL, "vanilla_lm": VanillaLM, "bert": bert}


def loss_of(name, model, batch):
    """As the training entry of the model file has it."""
    if name == "bert":
        return model(**batch).loss
    return F.cross_entropy(model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())
