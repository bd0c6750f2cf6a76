//! What of a quote may differ from its source, and what may not.

use proptest::prelude::*;

use super::*;

/// What `quote` is found as in a Markdown source.
fn found<'a>(quote: &str, text: &'a str) -> Option<&'a str> {
    found_in("a.md", quote, text)
}

fn found_in<'a>(path: &str, quote: &str, text: &'a str) -> Option<&'a str> {
    Visible::of(path, text).find(&Quote::of(quote)).map(|found| &text[found.range])
}

#[test]
fn white_space_and_typography_may_differ_and_words_may_not() {
    let text = "It said: \u{201c}The tide\n   turns \u{2014} twice\u{a0}a day\u{201d}, and more\u{2026}";
    for quote in [
        "\"The tide turns - twice a day\"",
        "  \u{ab}The tide turns \u{2013} twice a day\u{bb} ",
        "\u{201c}The\ttide turns \u{2014} twice a\u{200b} day\u{201d}",
    ] {
        assert_eq!(
            found(quote, text),
            Some("\u{201c}The tide\n   turns \u{2014} twice\u{a0}a day\u{201d}"),
            "{quote}"
        );
    }
    assert_eq!(found("and more...", text), Some("and more\u{2026}"));
    for other in ["tHe tide turns", "The tide turned", "The tide turns twice", "The tides", "", " \n "] {
        assert_eq!(found(other, text), None, "{other}");
    }
}

#[test]
fn what_nobody_reads_is_not_compared() {
    let text = "See [12](#id27) and [one](a.html \"One\"), and\n\n```rust,ignore title\nlet x = 1;\n```\n\n1. an **item**";
    assert!(found(text, text).is_some() && found_in("", text, text).is_some());
}

#[test]
fn a_tag_without_an_end_hides_one_paragraph() {
    let text = "Put it in a <style> element.\n\nThe limit is 30 seconds.\n";
    assert!(found("The limit is 30 seconds.", text).is_some());
}

#[test]
fn a_link_may_be_defined_outside_of_the_quote() {
    let text =
        "- sync: fix [reopens] ([#8021])\n\nIt has 10[3] arches.\n\n[reopens]: a.html\n[#8021]: b.html\n";
    assert_eq!(found("- sync: fix [reopens] ([#8021])", text), Some("sync: fix [reopens] ([#8021])"));
    assert_eq!(found("sync: fix reopens (#8021)", text), Some("sync: fix [reopens] ([#8021])"));
    assert_eq!(found("It has 103 arches", text), None);
    let text = "<sup>\nUnder <a href=\"A\">Apache, Version 2.0</a> or MIT.\n</sup>\n\n<br>\n\n<sub>\nUnless Apache-2.0 says.\n</sub>";
    assert!(found(text, text).is_some());
    let quoted = format!("> {}", text.replace('\n', "\n> "));
    assert!(found(text, &quoted).is_some());
    let text = "- **now:** fix ([#12])\n";
    assert_eq!(found(text, text), Some("now:** fix ([#12])"));
}

#[test]
fn a_quote_does_not_begin_or_end_within_a_word() {
    let text = "It is impossible to escape, but possible to hide. 潮は一日に二回変わる。";
    assert_eq!(found("possible to escape", text), None);
    assert_eq!(found("possible to hid", text), None);
    assert_eq!(found("possible to hide", text), Some("possible to hide"));
    assert_eq!(found("12 arches", "It has 112 arches."), None);
    // Nobody can tell where these words end.
    assert_eq!(found("一日に二回", text), Some("一日に二回"));
}

#[test]
fn nothing_that_changes_what_a_quote_says_is_left_out() {
    for (quote, text) in [
        ("the bridge can", "the bridge can't be crossed"),
        ("the bridge can", "the bridge can\u{2019}t be crossed"),
        ("'t be crossed", "the bridge can't be crossed"),
        ("a population of 1", "a population of 1,500,000"),
        ("500,000 people", "1,500,000 people"),
        ("the toll costs 12", "the toll costs 12.50"),
        ("the toll costs 12.", "the toll costs 12.50"),
        (".50 at night", "12.50 at night"),
        ("5 degrees in winter", "-5 degrees in winter"),
        ("5 degrees in winter", "it has \u{2212}5 degrees in winter"),
        ("5 inches", "some .5 inches"),
        ("가능하다고 말했다", "불가능하다고 말했다"),
        ("संभव है कि", "असंभव है कि"),
        ("cien an", "cien an\u{303}os"),
        ("legal in all states", "il\u{2063}legal in all states"),
        ("๕ ตัว", "๑๕ ตัว"),
        ("500 000 people", "1\u{202f}500\u{202f}000 people"),
        ("500 000 people", "1\u{a0}500\u{a0}000 people"),
        ("a town of 1 500", "a town of 1\u{2009}500\u{2009}000 people"),
        ("toxic to fish", "non-toxic to fish"),
        ("toxic to fish", "non\u{2011}toxic to fish"),
        ("-toxic to fish", "non-toxic to fish"),
        ("it is non-", "it is non-toxic"),
        ("it is sugar", "it is sugar-free"),
        ("it is sugar", "it is sugar-\u{ad}free"),
        ("$500 of profit", "-$500 of profit"),
        ("500 of profit", "-$500 of profit"),
        ("€500 of profit", "\u{2212}€500 of profit"),
        ("5 euros in winter", "1/5 euros in winter"),
        ("5 euros in winter", "1\u{2044}5 euros in winter"),
        ("it costs 1", "it costs 1/5 euros"),
        ("max_bytes = 1", "`max_bytes = 1_000_000`"),
        ("it arrives at 3", "it arrives at 3:30"),
        ("its value is 10", "its value is 10^6"),
        ("a population of 5", "a population of 5×10⁶"),
        ("the fee is 5", "the fee is 5–10 euro"),
        ("5 mg of lead per litre", "< 5 mg of lead per litre"),
        ("5 items in a box", "if n >= 5 items in a box"),
        ("The weight w[i][k] is 5 kg", "The weight w[i][j] is 5 kg"),
        ("| a | b |\n| --- | --- |\n| B1 | Port | 900 deaths |", "| a | b |\n| --- | --- |\n| B1 | Port |"),
        ("it costs 9 euro <!-- not --> a day", "it costs 9 euro a day"),
        ("The dam is … safe to cross", "The dam is not safe to cross"),
    ] {
        assert_eq!(found(quote, text), None, "{quote}");
    }
    for (quote, text) in [
        ("10 10 10 10", "110 10 10 10 10"),
        ("has 12", "The bridge has 12."),
        ("has 12", "The bridge has 12. It is old."),
        ("has 12.", "The bridge has 12."),
        ("has 12", "'The bridge has 12', he said"),
        ("5 degrees", "some ...5 degrees"),
        ("a day", "one\u{2028}a day"),
        ("人口は12", "この人口は12万人"),
        ("万人", "この人口は12万人"),
        ("二", "二〇二六年"),
        ("カタ", "ヒラカタカナー"),
        ("ปลา", "กินปลาทู"),
        ("ြန်မာ", "မြန်မာစာ"),
        ("non-toxic to fish", "It is non-toxic to fish."),
        ("1/5 euros in winter", "costs 1/5 euros in winter"),
        ("-$500 of profit", "made -$500 of profit"),
        ("$500 of profit", "made $500 of profit"),
        ("500 of profit", "made $500 of profit"),
        ("$500 of profit", "made...$500 of profit"),
        ("000 people", "some 500 000 people"),
        ("has 12 arches", "it has 12 arches\u{2014}two are wide"),
        ("two are wide", "it has 12 arches--two are wide"),
        ("or rivers", "seas and/or rivers"),
        ("500 people", "about\u{a0}500 people"),
    ] {
        assert_eq!(found(quote, text), Some(quote), "{quote}");
    }
}

#[test]
fn white_space_within_numbers_may_differ() {
    let text = "It has 1\u{202f}500\u{202f}000 people.";
    for quote in ["1 500 000 people", "1\u{a0}500\u{2009}000 people"] {
        assert_eq!(found(quote, text), Some("1\u{202f}500\u{202f}000 people"), "{quote}");
    }
    assert_eq!(found("it is non-toxic", "it is non\u{2011}toxic"), Some("it is non\u{2011}toxic"));
}

#[test]
fn forms_of_characters_and_marks_of_markdown_may_differ() {
    for (quote, text) in [
        ("the first office is full", "the \u{fb01}rst o\u{fb03}ce is full"),
        ("the \u{fb01}rst office", "the first office"),
        ("Zu\u{308}rich is large", "Zürich is large"),
        ("ｔｈｅ ｔｉｄｅ", "the tide"),
        ("プール が 広い", "ﾌﾟｰﾙ が 広い"),
        ("the north har\u{ad}bour", "the north harbour"),
        ("the north harbour", "the north har\u{ad}\n  bour"),
        ("The north harbour has two locks", "The **north** harbour __has__ *two* locks"),
        ("The *north* harbour", "The north harbour"),
        ("run cargo build now", "run `cargo build` now"),
        ("see the harbour of Avon.", "see [the harbour](https://a.example/b) of Avon."),
        ("Locks It has two", "## Locks\n\nIt has two"),
        ("two locks and a tower", "> two locks\n> and a tower"),
        ("5 * 3 and a_b", "5 \\* 3 and a\\_b"),
    ] {
        assert_eq!(found(quote, text), Some(text.trim_start_matches(['#', '>', ' '])), "{quote}");
    }
    for (quote, text) in [
        ("the area is 102 m", "the area is 10² m"),
        ("it takes 11 h", "it takes 1½ h"),
        ("it takes 1 h", "it takes 1½ h"),
        ("23 apples", "2*3 apples"),
        ("snakecase names", "snake_case names"),
        ("toxic to fish", "non-**toxic** to fish"),
        ("5 degrees", "-**5** degrees"),
        ("it is カ", "it is ガ"),
        ("cien an", "cien años"),
        ("the o", "the \u{fb03}"),
    ] {
        assert_eq!(found(quote, text), None, "{quote}");
    }
}

#[test]
fn a_quote_that_repeats_itself_is_looked_for_in_linear_time() {
    let begun = std::time::Instant::now();
    let text = "a".repeat(1024 * 1024);
    assert_eq!(found(&text[..4096], &text), None, "no place is whole");
    let text = "10 ".repeat(350_000);
    assert_eq!(found(&format!("0 {}", &text[..3999]), &text), None, "no place is whole");
    // The product of the lengths takes minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn footnotes_within_a_quote_do_not_count() {
    let text = "It has 12 arches[^1], of which[^23] two are wide.[^4] See [^a] or [^] below.";
    assert_eq!(
        found("It has 12 arches, of which two are wide.", text),
        Some("It has 12 arches[^1], of which[^23] two are wide.")
    );
    assert_eq!(found("arches[^9], of which two", text), Some("arches[^1], of which[^23] two"));
    assert_eq!(found("See or below.", text), None);
    assert_eq!(found("See [^a] or [^] below.", text), Some("See [^a] or [^] below."));
}

/// A document with everything that Markdown and converters write.
const PORT: &str = "\
# Berths

The port has three berths &amp; one dry dock&nbsp;– all on the *north* side.

| Berth | Length | Owner |
| --- | --- | --- |
| B1 | 210 m | Port |
| B2 | 180 m<br>with fender | Halden \\| Freight AS |
| B3 | | Nobody |
| 1 | 500 | people |

- The crane lifts 45 t.
- The tug is called Marlin.

1. Open the gate.
2. Ring the bell twice.

The basin holds 10<sup>3</sup> m<sup>3</sup> of water, and H<sub>2</sub>S is measured daily. The dredger comes each
spring, when the river is high,\n\n<!-- Page 2 -->\n\nand takes away about forty thousand tonnes of silt before the
summer traffic begins. See [the map](https://example.org/map) and `gate.sh --open`.\\
The keeper lives in house 7. She said: \"The lock is old.\" It was true. Goods are trans-
ported by night, never by day; the sign says 5' and -3 °C.

> The council has agreed.
> It pays half.

## Fees

A night costs 12 euro. It is Vec<String> in `a | b`, C<sub>12</sub>H<sub>22</sub> and the 1<sup>st</sup> of May.

<table><tr><td>Crew</td><td>12 &amp; more</td></tr><tr><td>Dogs</td><td>2</td></tr></table>
";

#[test]
fn a_reader_finds_what_is_quoted() {
    for quote in [
        "| B1 | 210 m | Port |",
        "B1 210 m Port",
        "B1, 210 m, Port",
        "B1\t210 m\tPort",
        "B1 | 210 m, Port",
        "210 m Port",
        "B2 | 180 m with fender",
        "Halden | Freight AS",
        "Halden \\| Freight AS |",
        "| B3 | | Nobody |",
        "B3, , Nobody",
        "1, 500, people",
        "| Berth | Length | Owner | | --- | --- | --- | | B1 | 210 m | Port |",
        "| Berth | Length | Owner |\n| --- | --- | --- |\n| B1 | 210 m | Port |",
        "B1 210 m Port B2 180 m with fender Halden | Freight AS",
        "three berths & one dry dock - all on the north side",
        "three berths &amp; one dry dock&nbsp;– all on the *north* side",
        "The crane lifts 45 t. The tug is called Marlin.",
        "- The crane lifts 45 t. - The tug is called Marlin.",
        "- The crane lifts 45 t.\n- The tug is called Marlin.",
        "• The crane lifts 45 t. • The tug is called Marlin.",
        "Open the gate. Ring the bell twice.",
        "1. Open the gate. 2. Ring the bell twice.",
        "1) Open the gate. 2) Ring the bell twice.",
        "2. Ring the bell twice.",
        "The basin holds 10³ m³ of water",
        "The basin holds 10<sup>3</sup> m<sup>3</sup> of water",
        "H2S is measured daily",
        "H₂S is measured daily",
        "when the river is high, and takes away about forty thousand tonnes",
        "See the map and gate.sh --open.",
        "gate.sh --open. The keeper lives in house 7.",
        "She said: 'The lock is old.' It was true.",
        "She said: “The lock is old.” It was true.",
        "Goods are transported by night",
        "Goods are trans-ported by night",
        "Goods are trans- ported by night",
        "The council has agreed. It pays half.",
        "> The council has agreed. It pays half.",
        "Fees A night costs 12 euro.",
        "## Fees A night costs 12 euro.",
        "It pays half. ## Fees A night costs 12 euro.",
        "“A night costs 12 euro.”",
        "'A night costs 12 euro.'",
        "the crane lifts 45 t",
        "a night costs 12 euro",
        "It is Vec<String> in a | b,",
        "C12H22 and the 1st of May",
        "the sign says 5' and -3 °C",
        "Crew, 12 & more",
        "Crew | 12 &amp; more",
    ] {
        let found = Visible::of("", PORT).find(&Quote::of(quote));
        let found = found.unwrap_or_else(|| panic!("{quote}"));
        assert_eq!(found.omitted, 0, "{quote}");
    }
    assert_eq!(found("berths & one dry dock", PORT), Some("berths &amp; one dry dock"));
    assert_eq!(found("B1, 210 m", PORT), Some("B1 | 210 m"));
    assert_eq!(found("12 & more", PORT), Some("12 &amp; more"));
}

#[test]
fn what_a_source_does_not_show_is_not_found() {
    for quote in [
        "The basin holds 103 m3 of water",
        "The basin holds 10 m of water",
        "The tug is called Marlin!",
        "The crane lifts 54 t.",
        "The crane lifts 45 kg.",
        "The port has berths",
        "The port has three berths.",
        "B1, Port",
        "B1 Port",
        "B3 Nobody",
        "B3, Nobody",
        "Port B2",
        "Port, B2",
        "Port | B2 | 180 m",
        "Length Owner B1 210 m",
        "B1 210 m Port B2",
        "B1 210 m Port B3",
        "B1 180 m",
        "Berth: B1, Length: 210 m",
        "1 500 people",
        "1500 people",
        "1,500 people",
        "2. Open the gate.",
        "1. Open the gate. 3. Ring the bell twice.",
        "3. Open the gate. 4. Ring the bell twice.",
        "12. Ring the bell twice.",
        "The crane, lifts 45 t",
        "three berths one dry dock",
        "three, berths & one dry dock",
        "the sign says 5\" and",
        "the sign says 5",
        "3 °C.",
        "+3 °C.",
        "- 3 °C.",
        "by night, never by",
        "by night, by day",
        "Goods are trans ported by night",
        "It is Vec in a",
        "It is Vec<Int> in a",
        "in a b, C12H22",
        "C1222 and",
        "Crew Dogs",
        "> 12 & more",
        "# 12 & more",
        "### The tug is called Marlin.",
        "The tug is called Marlin. > Open the gate.",
        "12 & more Dogs",
        "THe crane lifts 45 t",
        "the TUG is called Marlin",
    ] {
        let expected = ["by night, never by", "the sign says 5"].contains(&quote);
        assert_eq!(found(quote, PORT).is_some(), expected, "{quote}");
    }
}

#[test]
fn an_ellipsis_joins_parts_in_order_in_one_section() {
    let omitted = |quote| Visible::of("", PORT).find(&Quote::of(quote)).map(|found| found.omitted);
    for quote in [
        "The dredger comes each spring … and takes away about forty thousand tonnes of silt",
        "The dredger comes each spring... before the summer traffic begins.",
        "The dredger comes each spring [...] before the summer traffic begins",
        "The dredger comes each spring (…) tonnes of silt ... The keeper lives in house",
    ] {
        assert!(omitted(quote) > Some(10), "{quote}");
    }
    for (quote, found) in [("… The tug is called Marlin", true), ("The tug is called Marlin …", true)] {
        assert_eq!(omitted(quote), found.then_some(0), "{quote}");
    }
    for quote in [
        "before the summer traffic begins … The dredger comes each spring",
        "The crane lifts … twelve euro",
        "The council has agreed … A night costs 12",
        "The dredger … is high",
        "B1 210 m Port … Halden | Freight",
        "dry dock – all on … The crane lifts",
    ] {
        assert_eq!(omitted(quote), None, "{quote}");
    }
    let far = format!("The crane is high. {} The tug is old.", "It is so. ".repeat(2_000));
    assert_eq!(found("The crane is high. … The tug is old.", &far), None);
}

#[test]
fn plain_text_and_code_are_compared_as_they_stand() {
    let text = "a = b * c[^1] | **d**\n- one &amp; two are trans-\nported\n";
    for quote in ["a = b * c[^1] | **d**", "- one &amp; two are transported", "**d** - one"] {
        assert!(found_in("a.txt", quote, text).is_some(), "{quote}");
        assert!(found_in("a.rs", quote, text).is_some(), "{quote}");
    }
    for quote in ["a = b * c | d", "one & two", "| d"] {
        assert_eq!(found_in("a.txt", quote, text), None, "{quote}");
    }
    assert_eq!(found("one & two are", text), Some("one &amp; two are"));
}

/// A word that occurs once.
fn word(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    format!("q{}{}{}", letter(n / 676), letter(n / 26), letter(n))
}

/// Sentences of words that occur once, negations, and numbers with signs and units.
fn sentence(from: usize, seeds: &[u16]) -> Vec<String> {
    let said = |(n, seed): (usize, &u16)| match seed % 5 {
        0 => format!("{}", 1_000 + 37 * (from + n)),
        1 => format!("-{} kg", 1_000 + 37 * (from + n)),
        2 => format!("not {}", word(from + n)),
        3 => format!("**{}**", word(from + n)),
        _ => word(from + n),
    };
    let first = std::iter::once(word(from + 90));
    first.chain(seeds.iter().enumerate().map(said)).chain([word(from + 91)]).collect()
}

/// The quote with something else in it; none if it has no place for that.
fn mutated(words: &[String], at: usize, how: usize) -> Option<String> {
    let at = 1 + at % (words.len() - 2);
    let mut words = words.to_vec();
    let before = words[at].clone();
    let is_number = before.contains(|c: char| c.is_ascii_digit());
    match how {
        0 if is_number => words[at] = before.replace(['0', '1', '3', '5'], "9"),
        1 if is_number => words[at] = before.strip_prefix('-').map_or(format!("-{before}"), str::to_owned),
        2 if is_number => {
            words[at] = before.strip_suffix(" kg").map_or(format!("{before} t"), |n| format!("{n} g"))
        }
        3 => words[at] = before.strip_prefix("not ").map_or(format!("not {before}"), str::to_owned),
        4 => words.swap(at, at + 1),
        5 => drop(words.remove(at)),
        6 => words[at] = word(5_000),
        7 => words.insert(at, before.clone()),
        8 => words[at] = format!("{before},"),
        9 => words[at] = format!("<sup>{before}</sup>"),
        10 if is_number => words[at] = before.replacen(|c: char| c.is_ascii_digit(), "", 1),
        _ => return None,
    }
    (words[at..] != [before.clone()] && words.get(at) != Some(&before) || how == 7).then(|| words.join(" "))
}

proptest! {
    #[test]
    fn what_stands_in_a_text_is_found_there(text in "(\\PC{0,8} ){0,8}", a in 0usize..9, n in 1usize..9) {
        let words: Vec<&str> = text.split(' ').skip(a).take(n).collect();
        let quote = words.join(" ");
        let folded = |text: &str| Folded::quote(text, Reading::Plain);
        match found_in("a.txt", &quote, &text) {
            Some(there) => prop_assert_eq!(folded(there).words, folded(&quote).words),
            None => {
                // The sign of a number stands before it.
                let before = folded(&text.split(' ').take(a).collect::<Vec<_>>().join(" ")).text;
                let is_number = is_signed(&before, folded(&quote).text.trim_start());
                prop_assert!(is_number || folded(&quote).words.is_empty(), "{:?} in {:?}", quote, text)
            }
        }
    }

    #[test]
    fn a_quote_that_says_something_else_is_not_found(
        seeds in proptest::collection::vec(0u16..100, 4..20),
        at in 0usize..20,
        how in 0usize..11,
        rows in 2usize..5,
        cells in proptest::array::uniform4(0usize..5),
        joint in 0usize..5,
    ) {
        let (one, two) = (sentence(0, &seeds), sentence(100, &seeds));
        let cell = |row: usize, column: usize| match (row + column) % 3 {
            0 => format!("{}", 200_000 + 10 * row + column),
            _ => word(1_000 + 10 * row + column),
        };
        let row = |row| (0..3).map(|column| cell(row, column)).collect::<Vec<_>>();
        let table: String = (0..rows).map(|n| format!("| {} |\n", row(n).join(" | "))).collect();
        let text = format!(
            "# One\n\n{}.\n\n| a | b | c |\n| - | - | - |\n{table}\n{}.\n\n## Two\n\n{}.\n",
            one.join(" "), two.join(" "), sentence(200, &seeds).join(" "),
        );
        for quote in [one.join(" "), one.join("\n").replace("**", ""), row(1).join(" "), row(1).join(", ")] {
            prop_assert!(found(&quote, &text).is_some(), "{} in {}", quote, text);
        }
        if let Some(quote) = mutated(&one, at, how) {
            prop_assert_eq!(found(&quote, &text), None, "{} in {}", quote, text);
        }
        let [first, last, other, column] = cells;
        let (first, other) = (first % rows, other % rows);
        let (last, column) = (last % 3, column % 3);
        if (first, last + 1) != (other, column) {
            let joint = [" ", ", ", " | ", "\t", " … "][joint];
            let quote = format!("{}{joint}{}", cell(first, last), cell(other, column));
            prop_assert_eq!(found(&quote, &text), None, "{} in {}", quote, text);
        }
        let end = |words: &[String]| words[words.len() - 3..].join(" ");
        let begin = |words: &[String]| words[..3].join(" ");
        for quote in [
            format!("{} … {}", end(&one), begin(&one)),
            format!("{} [...] {}", begin(&two), begin(&one)),
            format!("{} … {}", begin(&two), end(&sentence(200, &seeds))),
            format!("{} … {}", begin(&one), end(&two)),
        ] {
            prop_assert_eq!(found(&quote, &text), None, "{} in {}", quote, text);
        }
        let quote = format!("{} … {}", begin(&one), end(&one));
        // What it leaves out must not deny what it says.
        let denies = one[3..one.len() - 3].iter().any(|word| word.starts_with("not "));
        prop_assert_eq!(found(&quote, &text).is_some(), !denies, "{} in {}", quote, text);
    }

    #[test]
    fn any_two_texts_can_be_compared(
        quote in "([ -~‘’“”–…\u{ad}\n]|\\PC|<su[bp]>|[0-9]\\. ){0,12}",
        text in "([ -~‘’“”–…\u{ad}\n]|\\PC|&amp;|</?su[bp]>|<t[dr]>|\n\n[-|>#] |-\n){0,40}(\\[\\^1\\])?[ -~]{0,9}",
    ) {
        if let Some(found) = Visible::of("", &text).find(&Quote::of(&quote)) {
            prop_assert!(text.get(found.range).is_some());
        }
    }
}
