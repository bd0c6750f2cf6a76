//! Names of a fictional world: made of syllables, no two alike.

use std::collections::BTreeSet;

use fastrand::Rng;

const OPENINGS: &[&str] = &[
    "Bra", "Cor", "Del", "Fen", "Gar", "Hol", "Ist", "Jor", "Kel", "Lum", "Mar", "Nor", "Ost", "Pel", "Quin",
    "Rav", "Sel", "Tam", "Ulm", "Ver", "Wex", "Yar", "Zel", "Dro", "Bel", "Car", "Eld", "Fal", "Gri", "Hav",
];
const MIDDLES: &[&str] =
    &["a", "e", "i", "o", "u", "ali", "ano", "eri", "ilo", "ora", "una", "eva", "isa", "omi", "ade", "uri"];
const PEOPLE: &[&str] =
    &["n", "s", "ra", "lin", "th", "nda", "ric", "ssa", "von", "mir", "na", "ton", "la", "das"];
const FAMILIES: &[&str] = &[
    "der", "man", "sky", "ley", "well", "strand", "gard", "berg", "ström", "nen", "field", "wick", "lund",
    "kin",
];
const TOWNS: &[&str] = &[
    "by", "ham", "stadt", "mouth", "dale", "port", "burg", "ford", "minster", "vik", "haven", "cross",
    "mere", "holm",
];
const RIVERS: &[&str] = &["th", "n", "r", "ster", "lle", "ve", "nne", "sk"];
const FIRMS: &[&str] = &["tec", "dyne", "lux", "vara", "mond", "trix", "gen", "kor", "plex", "via"];

/// Draws names and never the same one twice.
#[derive(Default)]
pub(crate) struct Names {
    used: BTreeSet<String>,
}

impl Names {
    /// A first name and a family name.
    pub(crate) fn person(&mut self, rng: &mut Rng) -> String {
        self.new_name(rng, |rng| format!("{} {}", made(rng, PEOPLE), made(rng, FAMILIES)))
    }

    pub(crate) fn town(&mut self, rng: &mut Rng) -> String {
        self.new_name(rng, |rng| made(rng, TOWNS))
    }

    pub(crate) fn river(&mut self, rng: &mut Rng) -> String {
        self.new_name(rng, |rng| made(rng, RIVERS))
    }

    pub(crate) fn firm(&mut self, rng: &mut Rng) -> String {
        self.new_name(rng, |rng| made(rng, FIRMS))
    }

    /// The name of a book.
    pub(crate) fn book(&mut self, rng: &mut Rng) -> String {
        const FIRST: &[&str] = &[
            "Silent", "Amber", "Broken", "Distant", "Hollow", "Crimson", "Patient", "Borrowed", "Winter",
            "Paper",
        ];
        const SECOND: &[&str] = &[
            "Lantern",
            "Orchard",
            "Harbour",
            "Compass",
            "Staircase",
            "Meadow",
            "Clock",
            "Bridge",
            "Letter",
            "Garden",
        ];
        const THIRD: &[&str] = &["Silence", "Ashes", "Tides", "Glass", "Thunder", "Snow", "Copper", "Salt"];
        self.new_name(rng, |rng| format!("The {} {} of {}", of(rng, FIRST), of(rng, SECOND), of(rng, THIRD)))
    }

    fn new_name(&mut self, rng: &mut Rng, make: impl Fn(&mut Rng) -> String) -> String {
        loop {
            let mut name = make(rng);
            // Few names are left of a kind that is drawn often.
            if self.used.contains(&name) {
                name = format!("{} {name}", made(rng, PEOPLE));
            }
            if self.used.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// One of `parts`.
pub(crate) fn of<'a>(rng: &mut Rng, parts: &[&'a str]) -> &'a str {
    parts[rng.usize(..parts.len())]
}

fn made(rng: &mut Rng, endings: &[&str]) -> String {
    format!("{}{}{}", of(rng, OPENINGS), of(rng, MIDDLES), of(rng, endings))
}
