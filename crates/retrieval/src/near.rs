//! The order of passages by their meaning.

use std::cmp::Reverse;

/// The `limit` vectors that are most similar to that of a query, most similar first, each with its dot product. Vectors
/// are rounded and of length 1, so this is their cosine but for a factor. Equal ones are in the order of their ids.
/// Vectors with another number of dimensions are left out, such as the empty one of a text that has no meaning.
pub fn nearest<Id: Copy + Ord>(query: &[i8], vectors: &[(Id, Vec<i8>)], limit: usize) -> Vec<(Id, i32)> {
    let product =
        |other: &[i8]| query.iter().zip(other).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>();
    let same = vectors.iter().filter(|(_, other)| other.len() == query.len());
    let mut order: Vec<_> = same.map(|(id, other)| (Reverse(product(other)), *id)).collect();
    if limit < order.len() {
        order.select_nth_unstable(limit);
        order.truncate(limit);
    }
    order.sort_unstable();
    order.into_iter().map(|(Reverse(product), id)| (id, product)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_come_first() {
        let vectors = [(4, vec![0, 127]), (3, vec![90, 90]), (2, vec![127, 0]), (1, vec![90, 90])];
        assert_eq!(nearest(&[127, 0], &vectors, 3), [(2, 16_129), (1, 11_430), (3, 11_430)]);
        assert_eq!(nearest(&[127, 0], &vectors, 9).len(), 4);
        assert_eq!(nearest(&[127, 0], &[(1, vec![]), (2, vec![127, 0])], 3), [(2, 16_129)]);
        assert!(nearest::<u8>(&[127, 0], &[], 3).is_empty());
    }
}
