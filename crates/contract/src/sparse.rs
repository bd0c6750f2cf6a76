//! Values that most of their holders have at the default.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that takes a pointer's room while it is the default, and a box of its own otherwise: drivers hold many
/// nodes, and what few of them have would cost all of them. It is written and read as the value itself.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Sparse<T>(Option<Box<T>>);

impl<T: Copy + Default + PartialEq> Sparse<T> {
    /// The value.
    pub fn get(&self) -> T {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// Replaces the value.
    pub fn set(&mut self, value: T) {
        match &mut self.0 {
            none if value == T::default() => *none = None,
            Some(held) => **held = value,
            none => *none = Some(Box::new(value)),
        }
    }
}

impl<T: Copy + Default + PartialEq> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        let mut sparse = Self(None);
        sparse.set(value);
        sparse
    }
}

impl<T: Copy + Default + PartialEq + fmt::Debug> fmt::Debug for Sparse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl<T: Copy + Default + PartialEq + Serialize> Serialize for Sparse<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
    }
}

impl<'de, T: Copy + Default + PartialEq + Deserialize<'de>> Deserialize<'de> for Sparse<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_back_to_the_default_is_as_if_it_had_never_been_set() {
        let mut sparse = Sparse::from(7_u64);
        assert_eq!((sparse.get(), serde_json::to_string(&sparse).unwrap().as_str()), (7, "7"));
        assert_eq!(serde_json::from_str::<Sparse<u64>>("7").unwrap(), sparse);
        sparse.set(0);
        assert_eq!((sparse.get(), &sparse), (0, &Sparse::default()));
        assert_eq!(size_of::<Sparse<[u64; 7]>>(), size_of::<usize>());
    }
}
