//! Joining two orders of the same passages.

use std::collections::BTreeMap;

/// How little the first places count more than the next ones. 60 is usual for long orders. Measured: few passages are
/// read here, and with less a passage that only one order has among its first is among the first of both.
const K: f64 = 10.0;
/// How much a place by meaning counts, where one by words counts 1. Measured.
const MEANING: f64 = 1.5;

/// A passage and its places.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused<Id> {
    /// The passage.
    pub id: Id,
    /// Its place by words, from 1; 0 for none.
    pub lexical_rank: u32,
    /// Its place by meaning, from 1; 0 for none.
    pub vector_rank: u32,
    /// Higher is better.
    pub score: f64,
}

/// Joins the order by words with that by meaning (reciprocal rank fusion), best first. Equal ones are in the order by
/// words.
pub fn fuse<Id: Clone + Ord>(lexical: &[Id], vector: &[Id]) -> Vec<Fused<Id>> {
    let mut ranks: BTreeMap<&Id, [u32; 2]> = BTreeMap::new();
    for (which, order) in [lexical, vector].into_iter().enumerate() {
        for (rank, id) in (1..).zip(order) {
            let known = &mut ranks.entry(id).or_default()[which];
            if *known == 0 {
                *known = rank;
            }
        }
    }
    let part = |rank: u32| if rank == 0 { 0.0 } else { 1.0 / (K + f64::from(rank)) };
    let mut fused: Vec<Fused<Id>> = ranks
        .into_iter()
        .map(|(id, [lexical_rank, vector_rank])| Fused {
            id: id.clone(),
            lexical_rank,
            vector_rank,
            score: part(lexical_rank) + MEANING * part(vector_rank),
        })
        .collect();
    // Those without a place by words come last.
    let place = |fused: &Fused<Id>| fused.lexical_rank.wrapping_sub(1);
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| place(a).cmp(&place(b))));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_orders_have_near_the_top_comes_first() {
        let order: Vec<_> = fuse(&["a", "b", "c"], &["b", "d"])
            .into_iter()
            .map(|f| (f.id, f.lexical_rank, f.vector_rank))
            .collect();
        assert_eq!(order, [("b", 2, 1), ("d", 0, 2), ("a", 1, 0), ("c", 3, 0)]);
        assert!(fuse::<u8>(&[], &[]).is_empty());
    }
}
