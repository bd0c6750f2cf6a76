use proptest::prelude::*;

use super::*;

/// The words of `text` in the form in which texts are searched.
fn words(text: &str) -> Vec<String> {
    let text = indexed(text);
    text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// The words of a query.
fn asked(text: &str) -> Vec<String> {
    let text = queried(text);
    text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_script_without_spaces_is_searched_by_its_characters() {
    let words = |text: &str| {
        let text = separated(text);
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words("我們研究X1。"), ["我", "們", "研", "究", "X1"]);
    assert_eq!(words("ลาว"), ["ล", "า", "ว"]);
    for (text, word) in [
        ("東京タワーに登る", "タワー"),
        ("ข้อมูลภาษาไทย", "ภาษา"),
        ("서울에서 만나요", "서울"),
        ("ພາສາລາວ", "ລາວ"),
        ("ꦧꦱꦗꦮ", "ꦗꦮ"),
        ("ᬩᬲᬩᬮᬶ", "ᬩᬮᬶ"),
        ("ꪼꪕꪒꪾ", "ꪒꪾ"),
        ("ᨣᩴᩤᨾᩮᩬᩥᨦ", "ᨾᩮᩬᩥᨦ"),
        ("ㄅㄆㄇㄈ", "ㄇㄈ"),
        ("ꀀꀁꀂ", "ꀁꀂ"),
        ("ꨌꩌꩃ", "ꩌꩃ"),
    ] {
        let held = words(text);
        assert!(words(word).iter().all(|c| held.contains(c)), "{word} in {text}: {held:?}");
    }
    assert!(matches!(separated("plain, café"), Cow::Borrowed(_)));
}

#[test]
fn a_word_is_found_however_it_is_written() {
    for (written, word) in [
        ("cafe\u{301}", "café"),
        ("ｍｅｔｅｏｒ", "meteor"),
        ("of\u{fb01}ce", "office"),
        ("me\u{ad}te\u{ad}or", "meteor"),
        ("mete\u{200b}or", "meteor"),
        ("mete\u{2060}or", "meteor"),
        ("\u{feff}meteor", "meteor"),
        ("met**eor** falls", "meteor"),
        ("**met**eor", "meteor"),
        ("*met*eor", "meteor"),
        ("met<b>eor</b>", "meteor"),
        ("H<sub>2</sub>O", "h2o"),
        ("caf&eacute;", "café"),
        ("caf&#233;", "café"),
        ("caf&#xE9;", "café"),
        ("me&shy;teor", "meteor"),
        ("**caf&eacute;**", "café"),
        ("می\u{200c}خواهم", "میخواهم"),
        ("a [lin](x)kedix", "linkedix"),
        ("[lin][x]ked[ix](y)", "linkedix"),
        ("see mete[or](x), then", "meteor"),
        ("mete[**or** falls](x)", "meteor"),
        ("[M](a(b)c)eteor", "meteor"),
        ("[M](a(b)(c(d))e)et[e](f)or", "meteor"),
        ("[Me](x \"a title\")teor", "meteor"),
        ("[Meteor](x)next", "meteor"),
        ("[Me][some where]teor", "meteor"),
        ("me[^1]teor", "meteor"),
        ("met<wbr/>eor", "meteor"),
        ("met<span title=\"a > b\">eor</span>", "meteor"),
        ("met<a href='http://x/?a>b' class=c>eor</a>", "meteor"),
        ("met<i x = \"it's > it\">eor</i>", "meteor"),
        ("met<b title=\"never closed>eor</b>", "meteor"),
        ("[met](http://x \"a ) b\")eor", "meteor"),
        ("[met](http://x 'a ( b')eor", "meteor"),
        ("met<wbr />eor", "meteor"),
        ("<em>met</em >eor", "meteor"),
        ("met<b class='x y'>eor</b>", "meteor"),
        ("met<!-- a > b -->eor", "meteor"),
        ("met==e==or", "meteor"),
        ("met||e||or", "meteor"),
        ("10,000", "10000"),
        ("10.000", "10000"),
        ("1\u{a0}234\u{a0}567", "1234567"),
        ("1_000", "1000"),
        ("bigMeteor", "meteor"),
        ("METEORShower", "meteor"),
        ("[it is a mete](x)or", "meteor"),
        ("كِتَابٌ", "كتاب"),
        ("كتـــاب", "كتاب"),
        ("\u{0627}\u{064e}\u{0654}ب", "أب"),
        ("שָׁלוֹם", "שלום"),
        ("\u{fb2a}לום", "שלום"),
        ("ܫܠܳܡܳܐ", "ܫܠܡܐ"),
        ("to İstanbul", "istanbul"),
        ("I\u{307}zmir", "izmir"),
        ("I\u{640}\u{307}zmir", "izmir"),
    ] {
        assert!(words(written).contains(&word.to_owned()), "{written:?}: {:?}", words(written));
    }
}

/// Signs that Unicode takes for letters join no word, and the word with the sign is still found.
#[test]
fn a_sign_beside_a_word_is_no_part_of_it() {
    for written in [
        "Zirvane™",
        "Zirvane²",
        "Zirvane¹,²",
        "Zirvaneª",
        "Zirvane℠",
        "Zirvane¼",
        "№Zirvane",
        "Zirvane①",
        "Zirvane㎏",
        "Zirvaneⁿ",
        "Zirvane™²",
        "**Zir**vane™",
        "ZirvaneⓇ",
        "Zirvane\u{20dd}",
    ] {
        for query in ["Zirvane", "zirvane", "ZIRVANE"] {
            let held = words(written);
            assert!(asked(query).iter().all(|word| held.contains(word)), "{query} in {written:?}: {held:?}");
        }
    }
    for (written, query) in
        [("CO₂", "co2"), ("CO₂", "CO₂"), ("CO2", "CO₂"), ("m²", "m2"), ("𝓩𝓲𝓻vane", "zirvane"), ("CO₂", "co")]
    {
        let held = words(written);
        assert!(asked(query).iter().all(|word| held.contains(word)), "{query} in {written:?}: {held:?}");
    }
    assert_eq!(asked("Zirvane™"), ["zirvane"]);
    assert_eq!(asked("№Zirvane"), ["zirvane"]);
}

#[test]
fn escaped_characters_are_those_that_they_stand_for() {
    for (written, word) in [
        ("[plan](Quarterly%20Zirvane.md)", "zirvane"),
        ("![x](img/Old%20Zirvane%20plan.png)", "zirvane"),
        ("https://a.example/?q=%20zirvane", "zirvane"),
        ("M%C3%BCrvak.md", "mürvak"),
        ("Mu%CC%88rvak.md", "mürvak"),
        ("M%FCrvak", "mürvak"),
        ("%2520zirvane", "zirvane"),
        (r#""sm\u00f6rvak""#, "smörvak"),
        (r#""sm\\u00f6rvak""#, "smörvak"),
        (r"sm\u{f6}rvak", "smörvak"),
        (r"sm\U000000f6rvak", "smörvak"),
        (r"sm\xf6rvak", "smörvak"),
        (r"sm\xc3\xb6rvak", "smörvak"),
        (r"sm\303\266rvak", "smörvak"),
        (r#""first\nzirvane\tlast""#, "zirvane"),
        (r"C:\new\zirvane", "new"),
        (r"\ud835\udce9irvane", "zirvane"),
    ] {
        assert!(words(written).contains(&word.to_owned()), "{written:?}: {:?}", words(written));
    }
    assert_eq!(asked("M%C3%BCrvak"), ["mürvak"]);
    assert_eq!(asked(r"C:\new"), ["c", "new"]);
    for same in ["100%", "50%-60%", r"\d+", r"\ud800x", r"\u12", "%zz", r"\u{}", r"\u{110000}", "%", "\\"] {
        assert_eq!(joined(same), same);
    }
}

#[test]
fn letters_that_differ_in_case_only_are_the_same() {
    for (one, other) in [
        ("KIRBAKKALE", "Kırbakkale"),
        ("ISPARTA", "ısparta"),
        ("İzmir", "i\u{307}zmir"),
        ("ΖΙΡΒΑΝΗΣ", "ζιρβανης"),
        ("STRAẞE", "straße"),
    ] {
        assert_eq!(words(one), asked(other), "{one} {other}");
        assert_eq!(words(other), asked(one), "{one} {other}");
    }
}

/// Marks that no letter contains: in Yoruba, in phonetic writing, or drawn through the letters.
#[test]
fn marks_between_letters_divide_no_word() {
    for (written, word) in
        [("Ọ̀yọ́", "ọyọ"), ("Z\u{32a}algo", "zalgo"), ("Z̶i̶r̶v̶a̶n̶e̶", "zirvane"), ("हिन्दी", "हिनदी")]
    {
        assert_eq!(words(written), [word], "{written}");
        assert_eq!(asked(written), [word], "{written}");
    }
}

#[test]
fn what_was_found_before_is_still_found() {
    for (text, word) in [
        ("foo*bar", "bar"),
        ("a`b`", "b"),
        ("the entity &eacute; is", "eacute"),
        ("می\u{200c}خواهم", "خواهم"),
        ("ខ្មែរ\u{200b}ភាសា", "ភាសា"),
        ("a<b>c", "c"),
        ("x & y", "y"),
    ] {
        let last: String = word.chars().filter(|c| c.is_alphanumeric()).collect();
        let found = words(text).contains(&last) || searchable(text).contains(word);
        assert!(found, "{text:?}: {:?}", words(text));
    }
    for same in ["plain text, nothing else", "Größe 木の枝", "snake_case and tree-agent", "2 * 3 < 7 & more"]
    {
        assert_eq!(searchable(same), same);
        assert_eq!(comparable(same), same);
    }
}

#[test]
fn a_query_is_one_word_where_a_reader_sees_one() {
    for (query, read) in [
        ("met**eor** shower", "meteor shower"),
        ("caf&eacute;", "café"),
        ("foo\u{200b}bar", "foobar"),
        ("2*3", "2*3"),
        ("a  b\n", "a  b\n"),
        ("a[i] and [word](x), b", "a[i] and [word](x), b"),
        ("a [lin](x)kedix", "a [linkedix"),
        ("Is `lease` a *word*?", "Is lease a word?"),
    ] {
        assert_eq!(joined(query), read);
    }
}

#[test]
fn marks_that_carry_the_letter_stay() {
    for text in ["हिन्दी", "தமிழ்", "ދިވެހި", "Z\u{32a}algo", "vi\u{1ec7}t"] {
        assert_eq!(comparable(text).nfkc().collect::<String>(), text.nfkc().collect::<String>());
    }
    assert_ne!(comparable("أب"), comparable("اب"), "a hamza on an alef is another letter");
}

/// Links cost the length of the text, whatever it is.
#[test]
fn what_looks_like_links_is_read_in_linear_time() {
    for part in
        ["](", "][", "[", "a](b)", "a[", "a](b", "x](", "<a ", "<!--", "a((", "%41", "\\u", "1,000,", "<"]
    {
        let text = part.repeat(30_000);
        assert!(searchable(&text).len() <= text.len() * 4 + 3);
    }
}

proptest! {
    #[test]
    fn any_text_has_a_searchable_form(text in any::<String>()) {
        has_a_searchable_form(&text)?;
    }

    #[test]
    fn marks_in_any_order_have_a_searchable_form(
        text in "[aIאש\u{5b0}-\u{5c7}ا-ي\u{640}\u{64b}-\u{655}\u{301}\u{307}\u{323}\u{130}\u{fe70}-\u{fe7f}\u{fdfa}]{0,12}",
    ) {
        has_a_searchable_form(&text)?;
    }
}

fn has_a_searchable_form(text: &str) -> Result<(), TestCaseError> {
    let plain = comparable(text).into_owned();
    prop_assert!(searchable(text).starts_with(&plain));
    prop_assert_eq!(comparable(&plain).into_owned(), plain.clone());
    Ok(())
}
