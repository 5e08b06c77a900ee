//! The smallest scenarios of each rule.

use super::*;

fn text(segment: u64, tokens: u32) -> Vec<Piece> {
    vec![piece(segment, 0, tokens)]
}

fn piece(segment: u64, start: u32, tokens: u32) -> Piece {
    Piece {
        segment: SegmentId(segment),
        start,
        tokens,
    }
}

/// A pool of blocks of four tokens.
fn pool(total: u32, partial: bool) -> ReusePool {
    ReusePool::new(total, 4, partial)
}

/// A request of this text comes and goes.
fn serve(pool: &mut ReusePool, text: &[Piece], tokens: u32) -> (u32, u32) {
    let found = pool.admit(0, text, tokens);
    pool.release(0, text, tokens, tokens);
    found
}

#[test]
fn equal_prefixes_are_found_but_for_the_last_token() {
    let mut pool = pool(20, true);
    assert_eq!(serve(&mut pool, &text(1, 12), 12), (0, 3));
    assert_eq!(pool.admit(0, &text(1, 12), 12), (11, 3));
    assert_eq!(
        pool.admit(1, &text(1, 40), 12),
        (8, 1),
        "the third block was taken over"
    );
    assert_eq!(pool.shared(), 2);
    assert_eq!(
        pool.new_block(&text(1, 12), 12),
        Some(content::key(&text(1, 12), Cursor::START, 12).unwrap())
    );
    assert_eq!((pool.release(0, &text(1, 12), 12, 12), pool.shared()), (1, 0));
    assert_eq!(
        (pool.release(1, &text(1, 40), 12, 12), pool.cached_tokens()),
        (3, 12)
    );
    assert_eq!(pool.new_block(&text(1, 12), 12), None);
}

#[test]
fn part_of_a_block_is_copied_or_taken_over() {
    let mixed = [piece(1, 0, 6), piece(2, 0, 10)];
    let mut whole = pool(20, false);
    serve(&mut whole, &text(1, 12), 12);
    assert_eq!(serve(&mut whole, &mixed, 10).0, 4);
    let mut part = pool(20, true);
    serve(&mut part, &text(1, 12), 12);
    // The second block has one beneath it, so that its head is copied.
    assert_eq!(serve(&mut part, &mixed, 10).0, 6);
    assert_eq!(part.admit(0, &text(1, 13), 13).0, 12);
    part.release(0, &text(1, 13), 13, 13);
    // The last block of `mixed` is a leaf that nobody holds: it is taken over, and its content is gone.
    let longer = [piece(1, 0, 6), piece(2, 0, 3), piece(3, 0, 9)];
    assert_eq!(part.admit(0, &longer, 12).0, 9);
    assert_eq!(part.admit(1, &mixed, 10).0, 8);
}

#[test]
fn an_evicted_block_takes_all_beneath_it_along() {
    let mut pool = pool(4, true);
    // Both compute the same at once: the second one's end hangs below the first one's blocks.
    pool.admit(0, &text(1, 8), 4);
    pool.admit(1, &text(1, 8), 8);
    pool.release(0, &text(1, 8), 4, 4);
    pool.store_prompt(1, &text(1, 8), 8);
    assert_eq!(pool.cached_tokens(), 8);
    pool.take(2);
    assert_eq!((pool.cached_tokens(), pool.evicted_tokens()), (0, 8));
    assert_eq!(pool.release(1, &text(1, 8), 8, 8), 2);
    assert_eq!((pool.cached_tokens(), pool.new_block(&text(1, 8), 8)), (8, None));
}

#[test]
fn the_block_that_was_given_back_first_is_taken_first() {
    let mut pool = pool(3, true);
    serve(&mut pool, &text(1, 4), 4);
    serve(&mut pool, &text(2, 4), 4);
    pool.take(2);
    assert_eq!(
        pool.new_block(&text(1, 4), 4),
        content::key(&text(1, 4), Cursor::START, 4)
    );
    assert_eq!(pool.new_block(&text(2, 4), 4), None);
}
