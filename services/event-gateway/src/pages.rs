//! Page sizes and page tokens.
//!
//! A token is opaque to clients: a fingerprint of the list and its filters, then the cursor. A token
//! of another list, or of the same list with other filters, is refused.

use prost::Message;
use tonic::Status;
use tree_agent_contract::limits;
use tree_agent_runtime::errors::invalid_field;
use tree_agent_store::Page;
use uuid::Uuid;

/// Namespace of the fingerprints (a random UUID, fixed for ever).
const NAMESPACE: Uuid = Uuid::from_u128(0x27c8_33f7_90b4_4d0e_8f53_9d6e_41a6_7c10);

/// Bytes after which a page of rows of any size ends: with the row that passes it, it stays below 4 MiB, which every
/// client of gRPC takes.
pub(crate) const BYTES: usize = 4 * 1024 * 1024 - 16 * 1024;

/// The rows of a page. A size that is too large is lowered, as AIP-158 has it.
pub(crate) fn size(page_size: u32) -> usize {
    match page_size as usize {
        0 => limits::PAGE_DEFAULT,
        size => size.min(limits::PAGE_MAX),
    }
}

/// One list with its filters: makes and reads the tokens of its pages.
pub(crate) struct Pages(Uuid);

impl Pages {
    /// The list `name` with `filters`, in a fixed order.
    pub(crate) fn of(name: &str, filters: &[&str]) -> Self {
        let filters: Vec<_> = filters.iter().map(|filter| filter.as_bytes()).collect();
        Self::of_bytes(name, &filters)
    }

    /// The list `name` with the filters of `request`, whose page is left out.
    pub(crate) fn of_request(name: &str, request: &impl Message) -> Self {
        Self::of_bytes(name, &[&request.encode_to_vec()])
    }

    fn of_bytes(name: &str, filters: &[&[u8]]) -> Self {
        let mut text = Vec::new();
        for part in std::iter::once(&name.as_bytes()).chain(filters) {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
        Self(Uuid::new_v5(&NAMESPACE, &text))
    }

    /// The token of the page after `cursor`.
    pub(crate) fn token(&self, cursor: &str) -> String {
        format!("{}{cursor}", self.0.simple())
    }

    /// The rows of an answer, and the token of the page after them, made from the cursor of the last one. There is at
    /// least one row of a page that has any, and no more than fit into [`BYTES`].
    pub(crate) fn answer<T, Row: Message>(
        &self,
        page: &Page<T>,
        to_wire: impl Fn(&T) -> Row,
        cursor: impl Fn(&T) -> String,
    ) -> (Vec<Row>, String) {
        let mut bytes = 0;
        let rows = page.items.iter().map(to_wire).enumerate().map_while(|(i, row)| {
            // With the field's key and the length.
            bytes += row.encoded_len() + 8;
            (i == 0 || bytes <= BYTES).then_some(row)
        });
        let rows: Vec<Row> = rows.collect();
        let more = page.more || rows.len() < page.items.len();
        let last = rows.len().checked_sub(1).and_then(|last| page.items.get(last)).filter(|_| more);
        (rows, last.map(|last| self.token(&cursor(last))).unwrap_or_default())
    }

    /// The cursor in `token`, parsed by `parse`; `None` for the first page.
    pub(crate) fn cursor<T>(
        &self,
        token: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Status> {
        if token.is_empty() {
            return Ok(None);
        }
        let wrong = |text: &str| invalid_field("page_token", text);
        let parts = token.split_at_checked(32);
        let parts = parts.and_then(|(list, cursor)| Some((Uuid::try_parse(list).ok()?, cursor)));
        let (fingerprint, cursor) =
            parts.ok_or_else(|| wrong("is not a page token; pass next_page_token of the page before"))?;
        if fingerprint != self.0 {
            return Err(wrong(
                "belongs to another list or to other filters; begin again without a page token",
            ));
        }
        parse(cursor).map(Some).ok_or_else(|| wrong("is damaged; begin again without a page token"))
    }
}

/// The numbers of a cursor, with points between them.
pub(crate) fn numbers<const N: usize>(cursor: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = cursor.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_before_it_is_too_large_for_a_client() {
        let pages = Pages::of("runs", &[]);
        let answer = |sizes: &[usize], more| {
            let page = Page { items: sizes.to_vec(), more };
            let (rows, token) = pages.answer(&page, |size| "x".repeat(*size), ToString::to_string);
            (rows.len(), pages.cursor(&token, |cursor| cursor.parse::<usize>().ok()).unwrap())
        };
        assert_eq!(answer(&[], false), (0, None));
        assert_eq!(answer(&[1, 2, 3], false), (3, None));
        assert_eq!(answer(&[1, 2, 3], true), (3, Some(3)));
        assert_eq!(answer(&[1, BYTES / 2, BYTES / 2 + 1, 2], false), (2, Some(BYTES / 2)));
        assert_eq!(answer(&[BYTES + 1, 1], false), (1, Some(BYTES + 1)));
    }

    #[test]
    fn a_cursor_has_so_many_numbers() {
        assert_eq!(numbers("7.8.9"), Some([7, 8, 9]));
        for wrong in ["", "7", "7.8", "7.8.9.1", "7.8.x", "-1.8.9"] {
            assert_eq!(numbers::<3>(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_token_is_only_good_for_its_own_list_and_filters() {
        let pages = Pages::of("runs", &["a", "b"]);
        let token = pages.token("12:é");
        assert_eq!(pages.cursor(&token, |c| Some(c.to_owned())).unwrap().as_deref(), Some("12:é"));
        assert_eq!(pages.cursor("", |c| Some(c.to_owned())).unwrap(), None);
        for other in [Pages::of("runs", &["ab", ""]), Pages::of("projects", &["a", "b"])] {
            assert!(
                other.cursor(&token, |_| Some(())).unwrap_err().message().starts_with("page_token: belongs")
            );
        }
        for bad in ["zz", "abc", "00", "é", &token[..30]] {
            assert!(pages.cursor(bad, |_| Some(())).is_err(), "{bad}");
        }
        assert!(pages.cursor(&token, |_| None::<()>).unwrap_err().message().contains("damaged"));
    }
}
