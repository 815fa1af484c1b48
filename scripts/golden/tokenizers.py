"""Golden data of Hugging Face's tokenizers library.

Trains small byte-level BPE tokenizers with the normalizers, pre-tokenizers and
post-processors of published models on generated text, and writes for each

  tokenizer_<name>.json         the tokenizer.json
  tokenizer_<name>_golden.json  [[text, ids], ...], ids without special tokens
                                put around the text

Texts are str, so they are valid Unicode. tokenizer_utf8_golden.json holds
[[hex, text], ...]: bytes, and what Python decodes them to with
errors="replace".

--compare PROGRAM: instead, encodes 1 MB of generated text with PROGRAM (as
`PROGRAM tokenize`) and the library, and fails where ids differ.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

# This file has the library's name.
sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
             "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
             "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
DEEPSEEK_EOS = "<\uff5cend\u2581of\u2581sentence\uff5c>"
DEEPSEEK_BOS = "<\uff5cbegin\u2581of\u2581sentence\uff5c>"

# (first, last) code points of letters, to make words of.
SCRIPTS = {
    "latin": (0x61, 0x7a), "latin1": (0xe0, 0xff), "greek": (0x3b1, 0x3c9), "cyrillic": (0x430, 0x44f),
    "armenian": (0x561, 0x586), "hebrew": (0x5d0, 0x5ea), "arabic": (0x627, 0x64a), "devanagari": (0x905, 0x94d),
    "bengali": (0x985, 0x9b9), "tamil": (0xb85, 0xbcd), "thai": (0xe01, 0xe4e), "georgian": (0x10d0, 0x10f0),
    "hangul": (0xac00, 0xac60), "hiragana": (0x3041, 0x3096), "katakana": (0x30a1, 0x30fa), "han": (0x4e00, 0x4e60),
    "han_b": (0x20000, 0x20020), "ethiopic": (0x1200, 0x1248), "gothic": (0x10330, 0x1034a),
}
CODE = ["int main(int argc, char** argv) {\n  return a[i] + b->c;\n}\n", "def f(x):\n\treturn x**2  # square\n",
        "SELECT * FROM t WHERE id=42;\r\n", "<div class=\"a\">&nbsp;</div>\n", "for (i=0;i<10;++i)   \n\n\n",
        "https://example.com/a_b?c=d&e=%20f#g", "x != y && !z || w <= 0x1F", "$\\frac{a}{b}$", "a.b.c_d-e", "{\"k\": [1, 2.5e-3]}"]
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f44d\U0001f3fd",
         "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "1\ufe0f\u20e3", "\u00a9", "\u2603"]
MARKS = ["e\u0301", "a\u0308\u0323", "\u0915\u094d\u0937", "o\u0302\u0301", "\u1112\u1161\u11ab", "\u212b", "\ufb01", "\u0344"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\r", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e",
          "\u200b", "\x0b", "\x0c", " \t \n  ", "\u2003\u2003", "\ufeff"]
CONTROL = ["\x00", "\x01\x02", "\x1b[0m", "\x7f", "\x9f", "\x1c", "\ufffd", "\ue000", "\U0010fffd", "\u0378"]
CLITICS = ["don't", "I'LL", "we've", "It'S", "that\u2019s", "'\u017f", "'Re", "y'all'd've", "'t"]


def word(rng):
    first, last = SCRIPTS[rng.choices(list(SCRIPTS), [8] + [1] * (len(SCRIPTS) - 1))[0]]
    letters = range(first, min(last + 1, first + rng.choice([5, 12, 200])))
    text = "".join(chr(rng.choice(letters)) for _ in range(rng.randint(1, 9)))
    return rng.choice([str.upper, str.title, str, str, str, str])(text)


def piece(rng):
    kind = rng.random()
    if kind < 0.6:
        return word(rng) + " "
    if kind < 0.68:
        return str(rng.randint(0, 10 ** rng.randint(1, 12)))
    if kind < 0.72:
        return rng.choice("\u0663\u0967\u216b\u00bd\u4e09\u2460")
    if kind < 0.74:
        return chr(rng.choice([c for c in (rng.randrange(0x110000) for _ in range(4)) if not 0xd800 <= c < 0xe000] or [65]))
    return rng.choice(rng.choice([CODE, EMOJI, MARKS, SPACES, SPACES, CONTROL, CLITICS, list("!?.,;:-()[]{}'\"<>|~`@#%^&*_=+/\\")]))


def text_of(rng, pieces):
    return "".join(piece(rng) for _ in range(pieces))


def tokenizer(name):
    tok = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in ("gpt2", "nfc"))
    splits = {"llama3": [LLAMA3], "deepseek3": DEEPSEEK3}.get(name, [])
    parts = [pre_tokenizers.Split(Regex(s), "isolated") for s in splits]
    if name == "nfc":
        tok.normalizer = normalizers.Sequence([normalizers.NFC()])
        parts.append(pre_tokenizers.Digits(individual_digits=True))
    elif name == "deepseek3":
        tok.normalizer = normalizers.Sequence([])
    tok.pre_tokenizer = pre_tokenizers.Sequence(parts + [byte_level])
    tok.decoder = decoders.ByteLevel()
    return tok


ADDED = {
    "llama3": [AddedToken(t, special=True, normalized=False)
               for t in ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eot_id|><|eot_id|>")],
    "deepseek3": [AddedToken(DEEPSEEK_BOS, special=True, normalized=False), AddedToken(DEEPSEEK_EOS, special=True, normalized=False),
                  AddedToken("<think>", special=False, normalized=False), AddedToken("</think>", special=False, normalized=True)],
    "nfc": [AddedToken("<|endoftext|>", special=True, normalized=False, lstrip=True, rstrip=True),
            AddedToken("Cafe\u0301", special=False, normalized=True), AddedToken("<mask>", special=True, normalized=False, lstrip=True)],
    "gpt2": [AddedToken("<|endoftext|>", special=True, normalized=False)],
}


def train(name):
    rng = random.Random("train " + name)
    tok = tokenizer(name)
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    common = [word(rng) for _ in range(800)]
    corpus = [" ".join(rng.choice(common) for _ in range(50)) + text_of(rng, 20) for _ in range(400)]
    tok.train_from_iterator(corpus, trainer)
    tok.add_tokens(ADDED[name])
    if name == "llama3":
        tok.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", tok.token_to_id("<|begin_of_text|>"))])])
    elif name == "nfc":
        tok.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", tok.token_to_id("<|endoftext|>"))])
    return tok


def samples(name, count=200):
    rng = random.Random("samples " + name)
    specials = [t.content for t in ADDED[name]]
    texts = ["", " ", "a", "\n", "    ", "  x", "x  ", "caf\u00e9", "Cafe\u0301!", "\u0130stanbul \u1e9e"]
    texts += CODE + EMOJI + MARKS + SPACES + CONTROL + CLITICS
    while len(texts) < count:
        text = text_of(rng, rng.randint(1, 12))
        if rng.random() < 0.25:
            text += rng.choice(["", " ", " \n", "\u3000"]) + rng.choice(specials) + rng.choice(["", "  "]) + text_of(rng, 2)
        texts.append(text)
    return texts


def invalid_utf8():
    rng = random.Random("utf8")
    pool = [b"a", b"\xc3\xa9", b"\xe4\xb8\x80", b"\xf0\x9f\x98\x80", b"\x80", b"\xc0\x80", b"\xc3", b"\xe0\x80", b"\xe0\xa0", b"\xed\xa0\x80",
            b"\xf0\x9f\x98", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5", b"\xff\xfe", b"\xf4\x8f\xbf", b"\xe1\x80\xe2\xf0\x91\x92"]
    cases = pool + [b"".join(rng.choice(pool) for _ in range(rng.randint(2, 12))) for _ in range(60)]
    cases += [bytes(rng.randrange(256) for _ in range(24)) for _ in range(20)]
    return [[c.hex(), c.decode("utf-8", errors="replace")] for c in cases]


def compare(program, names, megabytes):
    """Lines of JSON, each a document; every code point once, then generated text and invalid bytes."""
    rng = random.Random("compare")
    texts = [f"a{chr(c)} {chr(c)}{chr(c)}\n" for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    texts = ["".join(texts[i:i + 50]) for i in range(0, len(texts), 50)]
    size = 0
    while size < megabytes << 20:
        texts.append(text_of(rng, 60))
        if rng.random() < 0.2:
            noise = bytes(rng.randrange(256) for _ in range(40))
            texts[-1] += noise.decode("utf-8", errors="replace")
        size += len(texts[-1].encode())
    failures = 0
    for name in names:
        tok = train(name)
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            tok.save(str(root / "tokenizer.json"))
            (root / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
            subprocess.run([program, "tokenize", root / "tokenizer.json", root / "in.jsonl", "-o", root / "out", "--no-eos"], check=True)
            index = json.loads((root / "out/index.json").read_text())
            got = []
            for shard in index["shards"]:
                data = (root / "out" / shard["file"]).read_bytes()
                got += memoryview(data[32:]).cast("H").tolist()
            at = 0
            for encoding, text in zip(tok.encode_batch(texts, add_special_tokens=False), texts):
                if got[at:at + len(encoding.ids)] != encoding.ids:
                    bad = next(i for i, v in enumerate(encoding.ids) if got[at + i:at + i + 1] != [v])
                    print(f"{name}: differs at token {bad} of {text!r}"[:600], encoding.tokens[max(bad - 3, 0):bad + 3],
                          [tok.id_to_token(i) for i in got[at:][max(bad - 3, 0):bad + 3]])
                    failures += 1
                    if failures > 8:
                        return 1
                    at = -1
                    break
                at += len(encoding.ids)
            if at >= 0:
                print(f"{name}: {len(texts)} documents, {sum(len(t.encode()) for t in texts)} bytes, {at} ids, equal: {at == len(got)}")
                failures += at != len(got)
    return int(failures > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--compare", metavar="PROGRAM")
    parser.add_argument("--megabytes", type=float, default=1)
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(arguments.compare, list(ADDED), int(arguments.megabytes))
    for name in ADDED:
        tok = train(name)
        tok.save(str(arguments.out / f"tokenizer_{name}.json"), pretty=False)
        saved = arguments.out / f"tokenizer_{name}.json"
        saved.write_text(json.dumps(json.loads(saved.read_text())) + "\n")  # ASCII
        golden = [[t, tok.encode(t, add_special_tokens=False).ids] for t in samples(name)]
        (arguments.out / f"tokenizer_{name}_golden.json").write_text(json.dumps(golden) + "\n")
    (arguments.out / "tokenizer_utf8_golden.json").write_text(json.dumps(invalid_utf8()) + "\n")
    return 0


sys.exit(main())
