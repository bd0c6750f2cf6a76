//! A model of a few words in ONNX form: the state of a token is the row of its word in a table.

use serde_json::json;

pub(super) const DIMENSIONS: usize = 4;

/// The words and their rows; words of one meaning have similar rows.
const WORDS: [(&str, [f32; DIMENSIONS]); 9] = [
    ("[PAD]", [0.0, 0.0, 0.0, 0.0]),
    ("[UNK]", [0.1, 0.1, 0.1, 0.1]),
    ("[CLS]", [0.0, 0.0, 0.0, 0.1]),
    ("[SEP]", [0.0, 0.0, 0.0, 0.1]),
    ("boat", [0.9, 0.1, 0.0, 0.0]),
    ("ship", [0.8, 0.0, 0.1, 0.0]),
    ("cat", [0.0, 0.9, 0.1, 0.0]),
    ("the", [0.0, 0.0, 0.2, 0.1]),
    ("a", [0.0, 0.0, 0.1, 0.1]),
];

/// `tokenizer.json`, with the padding and the truncation that the published one has.
pub(super) fn tokenizer() -> Vec<u8> {
    let vocab: serde_json::Map<_, _> =
        WORDS.iter().enumerate().map(|(id, (word, _))| ((*word).to_owned(), json!(id))).collect();
    let special = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let tokenizer = json!({
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [special("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, special("[SEP]")],
            "pair": [],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}},
        },
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    });
    tokenizer.to_string().into_bytes()
}

/// `model.onnx`. The fields' numbers are those of onnx.proto.
pub(super) fn model() -> Vec<u8> {
    const FLOAT: u64 = 1;
    const INT64: u64 = 7;
    let table: Vec<u8> = WORDS.iter().flat_map(|(_, row)| row.iter().flat_map(|x| x.to_le_bytes())).collect();
    let shape = [WORDS.len() as u64, DIMENSIONS as u64].map(|size| number(1, size)).concat();
    let table = [shape, number(2, FLOAT), bytes(8, b"table"), bytes(9, &table)].concat();
    let value = |name: &str, element: u64| {
        let kind = bytes(2, &bytes(1, &number(1, element)));
        [bytes(1, name.as_bytes()), kind].concat()
    };
    let gather = [
        bytes(1, b"table"),
        bytes(1, b"input_ids"),
        bytes(2, b"last_hidden_state"),
        bytes(3, b"gather"),
        bytes(4, b"Gather"),
    ];
    let inputs = ["input_ids", "attention_mask", "token_type_ids"].map(|name| bytes(11, &value(name, INT64)));
    let graph = [
        bytes(1, &gather.concat()),
        bytes(2, b"tiny"),
        bytes(5, &table),
        inputs.concat(),
        bytes(12, &value("last_hidden_state", FLOAT)),
    ];
    [number(1, 8), bytes(7, &graph.concat()), bytes(8, &number(2, 17))].concat()
}

/// A field of Protocol Buffers with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field of Protocol Buffers with bytes, a text or a message.
fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
