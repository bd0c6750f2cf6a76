//! What the scripts of the world leave out between and within words.

/// Whether `c` belongs to a script that puts no spaces between words, or to Hangul, whose words take endings.
///
/// These are the blocks whose letters Unicode lets stand on both sides of a line break: line-break class SA (Thai, Lao,
/// Myanmar, Khmer, the scripts of the Tai, Ahom), AK, AP and AS (Balinese, Javanese, Batak, Cham and others of the
/// Brahmi family), ID, CJ and NS (Han, kana, Bopomofo, Yi, Tangut, Nushu), and those of Hangul.
pub(super) const fn runs_on(c: char) -> bool {
    matches!(
        c,
        '\u{02ea}' | '\u{02eb}'
            | '\u{0e00}'..='\u{0eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1100}'..='\u{11ff}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{1950}'..='\u{19df}'
            | '\u{1a20}'..='\u{1aaf}'
            | '\u{1b00}'..='\u{1b7f}'
            | '\u{1bc0}'..='\u{1bff}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3021}'..='\u{3029}'
            | '\u{3031}'..='\u{3035}'
            | '\u{3038}'..='\u{303c}'
            | '\u{3040}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{a4cf}'
            | '\u{a960}'..='\u{aadf}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{11000}'..='\u{1107f}'
            | '\u{11300}'..='\u{113ff}'
            | '\u{116d0}'..='\u{116ff}'
            | '\u{11700}'..='\u{1174f}'
            | '\u{11900}'..='\u{1195f}'
            | '\u{11ee0}'..='\u{11eff}'
            | '\u{11f00}'..='\u{11f5f}'
            | '\u{16100}'..='\u{1613f}'
            | '\u{16fe0}'..='\u{191ff}'
            | '\u{1aff0}'..='\u{1b16f}'
            | '\u{1b170}'..='\u{1b2ff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Whether writers may leave `c` out of a word without making it another one: the points, vowel signs and accents of
/// Hebrew, Arabic and Syriac, and the stroke that lengthens an Arabic word. Marks of other scripts carry the letter.
pub(super) const fn is_optional(c: char) -> bool {
    is_stroke(c)
        || matches!(
            c,
            '\u{0591}'..='\u{05bd}'
                | '\u{05bf}'
                | '\u{05c1}'
                | '\u{05c2}'
                | '\u{05c4}'
                | '\u{05c5}'
                | '\u{05c7}'
                | '\u{0610}'..='\u{061a}'
                | '\u{064b}'..='\u{065f}'
                | '\u{0670}'
                | '\u{06d6}'..='\u{06dc}'
                | '\u{06df}'..='\u{06e4}'
                | '\u{06e7}'
                | '\u{06e8}'
                | '\u{06ea}'..='\u{06ed}'
                | '\u{0711}'
                | '\u{0730}'..='\u{074a}'
                | '\u{0897}'..='\u{089f}'
                | '\u{08ca}'..='\u{08e1}'
                | '\u{08e3}'..='\u{08ff}'
                | '\u{10efa}'..='\u{10eff}'
        )
}

/// The stroke that lengthens an Arabic word (tatweel).
pub(super) const fn is_stroke(c: char) -> bool {
    c == '\u{0640}'
}
