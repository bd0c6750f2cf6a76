//! The vectors that are most like another one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The `limit` vectors that are most similar to that of a query, most similar first, each with its dot product. Vectors
/// are rounded and of length 1, so this is their cosine but for a factor. Equal ones are in the order of their ids.
/// Vectors with another number of dimensions are left out, such as the empty one of a text that has no meaning.
pub fn nearest<'a, Id: Copy + Ord>(
    query: &[i8],
    vectors: impl IntoIterator<Item = (Id, &'a [i8])>,
    limit: usize,
) -> Vec<(Id, i32)> {
    // The worst of the best is on top.
    let mut best = BinaryHeap::with_capacity(limit);
    for (id, vector) in vectors {
        if vector.len() != query.len() {
            continue;
        }
        let found = (Reverse(product(query, vector)), id);
        if best.len() < limit {
            best.push(found);
        } else if let Some(mut worst) = best.peek_mut()
            && found < *worst
        {
            *worst = found;
        }
    }
    best.into_sorted_vec().into_iter().map(|(Reverse(product), id)| (id, product)).collect()
}

fn product(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &[i8], vectors: &[(u8, Vec<i8>)], limit: usize) -> Vec<(u8, i32)> {
        nearest(query, vectors.iter().map(|(id, vector)| (*id, &vector[..])), limit)
    }

    #[test]
    fn the_most_similar_come_first() {
        let vectors = [(4, vec![0, 127]), (3, vec![90, 90]), (2, vec![127, 0]), (1, vec![90, 90])];
        assert_eq!(found(&[127, 0], &vectors, 3), [(2, 16_129), (1, 11_430), (3, 11_430)]);
        assert_eq!(found(&[127, 0], &vectors, 2), [(2, 16_129), (1, 11_430)]);
        assert_eq!(found(&[127, 0], &vectors, 9).len(), 4);
        assert_eq!(found(&[127, 0], &[(1, vec![]), (2, vec![127, 0])], 3), [(2, 16_129)]);
        assert!(found(&[127, 0], &[], 3).is_empty() && found(&[127, 0], &vectors, 0).is_empty());
    }
}
