//! Numbers in a text: their value, how exact they are, and what they count.

use crate::support::said::{Word, is_in};
use crate::terms::{is_stop, terms};

/// Numbers in words, each behind its digits.
const WORDS: &str = "2 two zwei 3 three drei 4 four vier 5 five fünf 6 six sechs 7 seven sieben 8 eight acht 9 nine neun \
    10 ten zehn 11 eleven elf 12 twelve dozen zwölf dutzend 13 thirteen dreizehn 14 fourteen vierzehn 15 fifteen fünfzehn \
    16 sixteen sechzehn 17 seventeen siebzehn 18 eighteen achtzehn 19 nineteen neunzehn 20 twenty zwanzig 30 thirty \
    dreißig 40 forty vierzig 50 fifty fünfzig 60 sixty sechzig 70 seventy siebzig 80 eighty achtzig 90 ninety neunzig \
    100 hundred hundert";
/// What a number is multiplied by, in the same form.
const SCALES: &str = "100 hundred hundert 1000 thousand tausend 1000000 million millions mio millionen 1000000000 billion \
    billions bn milliarde milliarden 1000000000000 trillion billionen";
/// Words that say how many, and are no numbers here: a quote must have them, too.
const AMOUNTS: &str = "one single sole half third quarter twice thrice first second once thousand thousands million \
    millions billion billions trillion dozens hundreds both ein einzige halb hälfte drittel viertel tausend hundert \
    million millionen milliarde milliarden";
/// Words behind a number that are no unit of it.
const NO_UNIT: &str = "of in and or to from at on by for with the a an as is are was were that which than per but it its \
    had has have when while until since und oder von im bis";
/// Words before a number that is meant roughly.
const ROUGHLY: &str =
    "about around roughly nearly almost approximately approx circa ca some over under rund etwa fast";
/// Currencies, which stand before their numbers.
const CURRENCIES: &str = "$€£¥";

/// The same units in different words.
const UNITS: [&str; 14] = [
    "% percent prozent",
    "km kilometre kilometer kilometres kilometers",
    "m metre meter metres meters",
    "kg kilogram kilograms kilogramm",
    "h hour hours hr hrs stunde stunden",
    "min minute minutes mins minuten",
    "s sec secs second seconds sekunde sekunden",
    "ms millisecond milliseconds",
    "$ dollar dollars usd",
    "€ euro euros eur",
    "£ pound pounds gbp",
    "kb kib kilobyte kilobytes",
    "mb mib megabyte megabytes",
    "gb gib gigabyte gigabytes",
];
/// What stands behind a number that says which one of a row.
const ORDINAL: &str = "st nd rd th";
/// Words before a year.
const DATED: &str = "in since until of by from year before after im seit bis january february march april may june july \
    august september october november december";
/// Whole numbers below this are exact.
const EXACT: f64 = 9e15;
/// Words behind a number that may say what it counts.
const UNIT_WORDS: usize = 3;

/// A number as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) text: String,
    value: f64,
    /// What its last digit that counts is worth.
    step: f64,
    /// Words that may say what is counted, as an index holds them; none if nobody says.
    units: Vec<String>,
    is_year: bool,
}

impl Number {
    /// True if it is the other number, or that number rounded.
    pub(super) fn follows_from(&self, other: &Self) -> bool {
        let is_year = self.is_year || other.is_year;
        let counts_the_same =
            is_year || self.units.is_empty() || other.units.is_empty() || self.shares_unit(other);
        let difference = (self.value - other.value).abs();
        // Of more digits than a number of this kind has exactly, all must be the same.
        let is_exact = self.value.abs().max(other.value.abs()) < EXACT;
        let is_equal = match is_exact {
            true => difference <= 4.0 * f64::EPSILON * self.value.abs(),
            false => self.text == other.text,
        };
        let is_rounded = !is_year
            && is_exact
            && self.step > other.step
            && difference <= self.step / 2.0 + 4.0 * f64::EPSILON * self.value.abs();
        counts_the_same && (is_equal || is_rounded)
    }

    /// True if both count the same, or are both years.
    pub(super) fn is_of_the_same(&self, other: &Self) -> bool {
        self.is_year == other.is_year && (self.is_year || self.shares_unit(other))
    }

    fn shares_unit(&self, other: &Self) -> bool {
        self.units.iter().any(|unit| other.units.contains(unit))
    }
}

/// The number that begins at a word, and how many words it takes.
pub(super) fn number(words: &[Word<'_>], at: usize) -> Option<(Number, usize)> {
    let word = &words[at];
    // `#12`, `2FA` and `1.53.0` are names; `5GB` is not.
    let joined = words.get(at + 1).filter(|next| next.before.is_empty() && next.text != "%");
    if word.before.ends_with('#')
        || is_version(word.text)
        || joined.is_some_and(|next| !may_follow(next.text))
    {
        return None;
    }
    let (mut value, mut step, plain) = match word.text.starts_with(|c: char| c.is_ascii_digit()) {
        true => digits(word.text)?,
        false => (spelled(&word.text.to_lowercase())?, 1.0, false),
    };
    let mut used = 1;
    // twenty-five
    if !plain
        && (20.0..100.0).contains(&value)
        && value % 10.0 == 0.0
        && let Some(next) = words.get(at + 1).filter(|next| next.before == "-")
        && let Some(more) = spelled(&next.text.to_lowercase()).filter(|more| *more < 10.0)
    {
        (value, used) = (value + more, 2);
    }
    let scale = words.get(at + used).filter(|next| next.before.chars().all(|c| c == ' ' || c == '-'));
    let scale = scale.and_then(|next| {
        let name = next.text.to_lowercase();
        worth(SCALES, &name)
    });
    let is_scaled = scale.is_some();
    if let Some(by) = scale {
        (value, step, used) = (value * by, step * by, used + 1);
    }
    let before = at.checked_sub(1).map(|at| words[at].text.to_lowercase());
    let is_rough = before.as_deref().is_some_and(|word| is_in(ROUGHLY, word));
    // Zeros at the end of a large number may be rounded: of `1,200` the last two.
    if step == 1.0 && !is_scaled {
        let zeros = (1..=12).take_while(|n| value >= 10.0 && value % 10_f64.powi(*n) == 0.0).count();
        let significant = value.log10().floor() as usize + 1 - zeros.min(value.log10().floor() as usize);
        if zeros > 0 && (is_rough || significant >= 2 && value >= 100.0) {
            step = 10_f64.powi(zeros as i32);
        }
    }
    if plain_sign(word.before) {
        value = -value;
    }
    let currency =
        word.before.chars().next_back().filter(|c| CURRENCIES.contains(*c)).map(|c| unit(&c.to_string()));
    let units = currency.map_or_else(|| units(&words[at + used..]), |unit| vec![unit]);
    let is_dated = before.as_deref().is_some_and(|word| is_in(DATED, word));
    let is_year = plain && !is_scaled && (1000.0..2200.0).contains(&value) && (units.is_empty() || is_dated);
    if is_year {
        step = 1.0;
    }
    let end = &words[at + used - 1];
    let text = match used {
        1 => word.text.to_owned(),
        _ => format!("{} {}", word.text, end.text),
    };
    Some((Number { text, value, step, units, is_year }, used))
}

/// The value of digits, what the last of them is worth, and whether there are digits alone.
fn digits(text: &str) -> Option<(f64, f64, bool)> {
    let separators: Vec<char> = text.chars().filter(|c| matches!(c, '.' | ',')).collect();
    let groups: Vec<&str> = text.split(['.', ',']).collect();
    let grouped =
        groups.len() > 1 && groups[0].len() <= 3 && groups[1..].iter().all(|group| group.len() == 3);
    let all_same = separators.windows(2).all(|pair| pair[0] == pair[1]);
    let (whole, fraction) = match separators.as_slice() {
        [] => (text.to_owned(), ""),
        // 1,234 but 1.234 is a fraction
        [','] if grouped => (groups.concat(), ""),
        [_, _, ..] if all_same && grouped => (groups.concat(), ""),
        _ => (groups[..groups.len() - 1].concat(), groups[groups.len() - 1]),
    };
    let value: f64 = format!("{whole}.{fraction}0").parse().ok().filter(|value: &f64| value.is_finite())?;
    Some((value, 10_f64.powi(-(fraction.len() as i32)), separators.is_empty()))
}

fn spelled(word: &str) -> Option<f64> {
    worth(WORDS, word)
}

/// What a word is worth, by a list of values and their words.
fn worth(list: &str, word: &str) -> Option<f64> {
    let mut value = 0.0;
    list.split_ascii_whitespace().find_map(|known| match known.parse() {
        Ok(next) => {
            value = next;
            None
        }
        Err(_) => (known == word).then_some(value),
    })
}

/// Whether a word says how many without being a number. `one of them` and `one can` say nothing of that.
pub(super) fn is_amount(word: &str, next: &str) -> bool {
    is_in(AMOUNTS, word) && !(matches!(word, "one" | "ein") && (is_stop(next) || is_in(NO_UNIT, next)))
}

/// A minus that belongs to the number behind it.
fn plain_sign(before: &str) -> bool {
    let sign = before.strip_suffix(['-', '−', '–']);
    sign.is_some_and(|rest| rest.is_empty() || rest.ends_with([' ', '(']))
}

/// What a number counts, by the words behind it.
fn units(behind: &[Word<'_>]) -> Vec<String> {
    let mut units = Vec::new();
    for word in behind {
        let lower = word.text.to_lowercase();
        if is_in(ORDINAL, &lower) {
            continue;
        }
        let is_apart = !word.before.chars().all(|c| matches!(c, ' ' | '-' | '\u{a0}' | '*' | '`'));
        let is_number = lower.starts_with(|c: char| c.is_ascii_digit());
        if is_apart || is_number || is_in(NO_UNIT, &lower) || units.len() == UNIT_WORDS {
            break;
        }
        units.push(unit(&lower));
    }
    units.retain(|unit| !unit.is_empty());
    units
}

/// `1.53.0` names something; `1,530,000` counts.
fn is_version(word: &str) -> bool {
    word.matches('.').count() > 1 && word.split('.').skip(1).any(|group| group.len() != 3)
}

/// Whether a word may stand directly behind digits and leave them a number.
fn may_follow(word: &str) -> bool {
    let lower = word.to_lowercase();
    is_in(ORDINAL, &lower) || UNITS.iter().any(|same| is_in(same, &lower)) || worth(SCALES, &lower).is_some()
}

fn unit(word: &str) -> String {
    let known = UNITS.iter().find(|same| is_in(same, word));
    let known = known.and_then(|same| same.split(' ').next()).map(str::to_owned);
    known.unwrap_or_else(|| terms(word).into_iter().next().unwrap_or_else(|| word.to_owned()))
}
