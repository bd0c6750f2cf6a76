//! The names of MCP tools here: `server__tool`, with characters and a length that every provider of language models
//! accepts for the name of a function.

use uuid::Uuid;

/// Maximum of bytes of a tool's name. The providers' limit is 64.
const NAME_BYTES: usize = 64;
/// Bytes of a server's name.
const SERVER_BYTES: usize = 24;
/// Separates server and tool. No name of a server or of a built-in tool contains it.
const SEPARATOR: &str = "__";

/// True if `name` is a valid name of a server.
pub(super) fn is_server(name: &str) -> bool {
    name.len() <= SERVER_BYTES
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
        && !name.contains(SEPARATOR)
        // Otherwise `a_` + `__` + `b` could be read as `a` + `__` + `_b`.
        && !name.ends_with('_')
}

/// The name of the tool `tool` of `server` here. Invalid characters become `_`. A name that is too long or was changed
/// ends in a hash of the server's own name for the tool, so that two tools never get the same name.
pub(super) fn qualified(server: &str, tool: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let shown: String = tool.chars().map(plain).collect();
    let mut name = format!("{server}{SEPARATOR}{shown}");
    if name.len() > NAME_BYTES || shown != tool {
        let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, tool.as_bytes()).simple().to_string();
        name.truncate(NAME_BYTES - 9);
        name.push('_');
        name.push_str(&hash[..8]);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_and_apart() {
        assert_eq!(qualified("fs", "read_file"), "fs__read_file");
        let long = qualified("fs", &"x".repeat(100));
        let other = qualified("fs", &"x".repeat(101));
        assert_eq!((long.len(), other.len()), (64, 64));
        assert_ne!(long, other);
        let (dot, slash) = (qualified("fs", "a.b"), qualified("fs", "a/b"));
        assert_ne!(dot, slash);
        let odd = qualified("fs", "größe\n; rm");
        assert!(odd.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{odd}");
    }

    #[test]
    fn servers_have_plain_names() {
        for good in ["fs", "a1", "my-server", "my_server"] {
            assert!(is_server(good), "{good}");
        }
        for bad in ["", "1a", "A", "a__b", "a_", "a b", "a.b", "x234567890123456789012345"] {
            assert!(!is_server(bad), "{bad}");
        }
    }
}
