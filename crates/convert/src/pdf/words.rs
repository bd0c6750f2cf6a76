//! The words of a PDF and where they stand.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    Dictionary, Document, MediaBox, Object, OutputDev, OutputError, Transform, decode_text_string,
    output_doc, output_doc_page,
};

use crate::{Fault, Reason};

/// A gap of so many times the size of its letters ends a word.
const BLANK: f64 = 0.16;
/// The same before a sign that stands close to its word.
const BLANK_BEFORE: f64 = 0.24;
/// Below all that is drawn.
const BELOW: f64 = 1e6;
/// Forms within forms.
const PARENTS: usize = 8;

/// A word. Its page is turned so that most of its words read from left to right; `y` grows downwards.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) y: f64,
    pub(super) size: f64,
}

/// The words of each page, in the order in which the file draws them; none for a page that cannot be read.
pub(super) fn words(bytes: &[u8]) -> Result<BTreeMap<u32, Option<Vec<Word>>>, Fault> {
    let broken = |why: String| Fault::new(Reason::Broken, format!("broken: {why}"));
    let mut file = Document::load_mem(bytes).map_err(|e| broken(e.to_string()))?;
    if file.is_encrypted() {
        file.decrypt("").map_err(|_| Fault::new(Reason::Password, "needs a password"))?;
    }
    let pages = file.get_pages();
    if pages.is_empty() {
        return Err(broken("it has no pages".to_owned()));
    }
    without_fonts(&mut file);
    // The library panics for some pages, so they are read one by one after the first of these. Each such call looks for
    // the page among all.
    let mut drawn = Drawn::default();
    let all = catch_unwind(AssertUnwindSafe(|| output_doc(&file, &mut drawn)));
    let mut drawn = drawn.0;
    if !matches!(all, Ok(Ok(()))) {
        drawn.pop_last();
        for number in pages.keys().filter(|number| !drawn.contains_key(number)).copied().collect::<Vec<_>>() {
            let mut one = Drawn::default();
            let read = catch_unwind(AssertUnwindSafe(|| output_doc_page(&file, &mut one, number)));
            if let Ok(Ok(())) = read {
                drawn.append(&mut one.0);
            }
        }
    }
    let page = |(number, id): (u32, _)| {
        let words = drawn.remove(&number).map(|letters| {
            let fields = file.get_page_annotations(id).unwrap_or_default();
            let fields = fields.into_iter().filter_map(|field| filled(&file, field));
            words_of(letters).into_iter().chain(fields).collect()
        });
        (number, words)
    };
    Ok(pages.into_iter().map(page).collect())
}

/// Takes the programs of Type 1 fonts out of the file, and keeps how they name their letters: the library reads each
/// program again for each page, which takes most of its time.
fn without_fonts(file: &mut Document) {
    let mut found = Vec::new();
    for (id, object) in &file.objects {
        let Ok(font) = object.as_dict() else { continue };
        let Some(descriptor) = font.get(b"FontDescriptor").and_then(Object::as_reference).ok() else {
            continue;
        };
        let program = || file.dereference(file.get_dictionary(descriptor).ok()?.get(b"FontFile").ok()?).ok();
        let Some((_, Object::Stream(program))) = program() else { continue };
        let names = match font.has(b"Encoding") {
            true => None,
            false => {
                program.decompressed_content().ok().map(|program| names(&String::from_utf8_lossy(&program)))
            }
        };
        found.push((*id, descriptor, names));
    }
    for (font, descriptor, names) in found {
        if let (Some(names), Ok(font)) = (names, file.get_dictionary_mut(font)) {
            font.set("Encoding", names);
        }
        if let Ok(descriptor) = file.get_dictionary_mut(descriptor) {
            descriptor.remove(b"FontFile");
        }
    }
}

/// The letters that a Type 1 font names: `dup 65 /A put` for each, or those of the standard.
fn names(program: &str) -> Object {
    let clear = program.split("eexec").next().unwrap_or_default();
    let mut differences = Vec::new();
    for entry in clear.split("dup ").skip(1) {
        let mut words = entry.split_whitespace();
        let (code, name) = (words.next().and_then(|code| code.parse::<i64>().ok()), words.next());
        if let (Some(code @ 0..256), Some(name), Some("put")) =
            (code, name.and_then(|name| name.strip_prefix('/')), words.next())
        {
            differences.extend([Object::Integer(code), Object::Name(name.as_bytes().to_vec())]);
        }
    }
    if differences.is_empty() {
        return Object::Name(b"StandardEncoding".to_vec());
    }
    let mut encoding = Dictionary::new();
    encoding.set("Differences", differences);
    Object::Dictionary(encoding)
}

/// What a field of a form was filled with, or what somebody has written on the page. A note that is a sign on the page
/// stands below everything else.
fn filled(file: &Document, field: &Dictionary) -> Option<Word> {
    let kind = field.get(b"Subtype").and_then(Object::as_name).unwrap_or_default();
    let mut value = field;
    for _ in 0..PARENTS {
        if value.has(b"V") || kind != b"Widget" {
            break;
        }
        value = file.get_dictionary(value.get(b"Parent").ok()?.as_reference().ok()?).ok()?;
    }
    let key: &[u8] = if matches!(kind, b"FreeText" | b"Text") { b"Contents" } else { b"V" };
    let text = match file.dereference(value.get(key).ok()?).ok()?.1 {
        Object::Name(name) if name == b"Off" => return None,
        Object::Name(name) => String::from_utf8_lossy(name).into_owned(),
        text => decode_text_string(text).ok()?,
    };
    let place: Vec<f64> = field
        .get(b"Rect")
        .ok()?
        .as_array()
        .ok()?
        .iter()
        .filter_map(|at| at.as_float().ok())
        .map(f64::from)
        .collect();
    let [left, bottom, right, top] = place[..] else { return None };
    let size = (top - bottom).clamp(1.0, 12.0);
    let y = if kind == b"Text" { BELOW - top } else { -(top + bottom - size * 0.7) / 2.0 };
    let is_empty = text.trim().is_empty();
    (!is_empty).then_some(Word { text: text.replace(['\r', '\n'], " "), left, right, y, size })
}

/// A letter as it is drawn.
struct Letter {
    text: String,
    x: f64,
    y: f64,
    width: f64,
    size: f64,
    /// Quarters of a turn.
    turn: usize,
}

/// The letters of each page.
#[derive(Default)]
struct Drawn(BTreeMap<u32, Vec<Letter>>);

impl OutputDev for Drawn {
    fn begin_page(
        &mut self,
        number: u32,
        _: &MediaBox,
        _: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.0.insert(number, Vec::new());
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        at: &Transform,
        width: f64,
        _: f64,
        size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        let turn =
            ((at.m12.atan2(at.m11) / std::f64::consts::FRAC_PI_2).round() as i64).rem_euclid(4) as usize;
        let long = at.m11.hypot(at.m12) * size;
        let size = at.m21.hypot(at.m22) * size;
        let (x, y) = match turn {
            0 => (at.m31, -at.m32),
            1 => (at.m32, at.m31),
            2 => (-at.m31, at.m32),
            _ => (-at.m32, -at.m31),
        };
        let Some(mut page) = self.0.last_entry() else { return Ok(()) };
        page.get_mut().push(Letter { text: unligatured(text), x, y, width: width * long, size, turn });
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

/// The words of letters, those that are turned as most letters first. What is drawn twice in one place is there once.
fn words_of(letters: Vec<Letter>) -> Vec<Word> {
    let mut counts = [0; 4];
    letters.iter().for_each(|letter| counts[letter.turn] += 1);
    let most = (0..4).max_by_key(|turn| (counts[*turn], 4 - turn)).unwrap_or(0);
    let mut turns = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    letters.into_iter().for_each(|letter| turns[letter.turn].push(letter));
    let mut words: Vec<Word> = Vec::new();
    for turn in (0..4).map(|at| (most + at) % 4) {
        // What is turned otherwise stands below the rest.
        let below = words.iter().map(|word| word.y).fold(f64::MIN, f64::max);
        let first = words.len();
        let mut is_open = false;
        for letter in &turns[turn] {
            if letter.text.trim().is_empty() {
                is_open = false;
                continue;
            }
            let size = letter.size.max(0.1);
            let is_close = letter.text.starts_with([',', '.', ';', ':', '!', '?', ')']);
            let blank = if is_close { BLANK_BEFORE } else { BLANK };
            let last = words.last_mut().filter(|word| {
                is_open
                    && (word.y - letter.y).abs() < 0.3 * size
                    && (-0.5 * size..blank * size).contains(&(letter.x - word.right))
            });
            match last {
                Some(word) => {
                    word.text.push_str(&letter.text);
                    word.right = letter.x + letter.width;
                }
                None => words.push(Word {
                    text: letter.text.clone(),
                    left: letter.x,
                    right: letter.x + letter.width,
                    y: letter.y,
                    size,
                }),
            }
            is_open = true;
        }
        if first > 0
            && let Some(top) = words[first..].iter().map(|word| word.y).reduce(f64::min)
        {
            words[first..].iter_mut().for_each(|word| word.y += below - top + 3.0 * word.size);
        }
    }
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert((word.text.clone(), word.left.round() as i64, word.y.round() as i64)));
    words
}

/// Letters that are drawn as one are two or three.
fn unligatured(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let ligatures = [
        ("ﬀ", "ff"),
        ("ﬁ", "fi"),
        ("ﬂ", "fl"),
        ("ﬃ", "ffi"),
        ("ﬄ", "ffl"),
        ("ﬅ", "st"),
        ("ﬆ", "st"),
        ("\u{f0b7}", "•"),
    ];
    ligatures.iter().fold(text.to_owned(), |text, (one, letters)| text.replace(one, letters))
}
