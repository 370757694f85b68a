"""Which hold is next, from tables alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.goals.climbing_moves import (
    GONE,
    LIMBS,
    LOSES,
    Limbs,
    best_move,
    first_holds,
    holding,
    leaving,
)
from jaxsim.characters.human import articulated_human
from jaxsim.characters.standing import effectors_of

UP = jnp.array([0.0, 1.0])
find, begin = jax.jit(best_move), jax.jit(first_holds)


def limbs_of(build):
    model = articulated_human(build)
    return Limbs.of(model, effectors_of(model))


@pytest.fixture(scope="module")
def limbs():
    return limbs_of("adult")


def moved(limbs, *more, may=None, way=UP):
    """The best move of one who is at ease, with more holds (left, up), in heights."""
    places = jnp.concatenate([limbs.ease, limbs.height * jnp.asarray(more)])
    may = jnp.ones((4, len(places)), bool) if may is None else may
    move = find(limbs, places, jnp.arange(4), may, way)
    return LIMBS[int(move.limb)] if move.found else None, int(move.hold)


def test_limbs_are_in_proportion_to_the_body(limbs):
    child = limbs_of("child")
    assert float(limbs.height) == pytest.approx(0.997, abs=0.01)
    size = float(child.height / limbs.height)
    np.testing.assert_allclose(child.reach / limbs.reach / size, 1.0, atol=0.2)
    for each in (limbs, child):
        assert (each.root[:2, 1] < 0).all() and (each.root[2:, 1] > 0).all()  # hips, shoulders
        assert each.slack(each.ease, jnp.zeros(2)) > 0


def test_a_hold_above_a_hand_is_for_that_hand(limbs):
    assert moved(limbs, (0.3, 0.95)) == ("leftHand", 4)
    assert moved(limbs, (-0.3, 0.95)) == ("rightHand", 4)
    assert moved(limbs, (0.2, -0.45)) == ("leftFoot", 4)


def test_of_two_holds_the_higher_one_within_reach_is_taken(limbs):
    assert moved(limbs, (0.3, 0.85), (0.3, 1.0)) == ("leftHand", 5)
    assert moved(limbs, (0.3, 0.85), (0.3, 2.0)) == ("leftHand", 4)


def test_nothing_is_done_where_no_hold_is_in_reach_or_none_is_allowed(limbs):
    assert moved(limbs, (0.3, 3.0))[0] is None
    assert moved(limbs, (0.3, 0.95), may=jnp.zeros((4, 5), bool))[0] is None


def test_hands_do_not_cross(limbs):
    may = jnp.zeros((4, 5), bool).at[LIMBS.index("leftHand"), 4].set(True)
    assert moved(limbs, (-0.4, 0.75), may=may)[0] is None


def test_a_limb_whose_going_costs_more_than_it_gains_over_another_stays(limbs):
    """As where the other three cannot bear the body."""
    places = jnp.concatenate([limbs.ease, limbs.height * jnp.array([[0.3, 0.95], [-0.25, -0.45]])])
    may = jnp.ones((4, 6), bool)
    for cost, limb in ((0.0, "leftHand"), (0.3, "rightFoot")):
        over = limbs.height * jnp.array([0.0, 0.0, cost, 0.0])
        move = find(limbs, places, jnp.arange(4), may, UP, over)
        assert move.found and LIMBS[int(move.limb)] == limb


def test_the_move_is_made_from_where_limbs_reach_their_holds_before_it_and_after(limbs):
    places = jnp.concatenate([limbs.ease, limbs.height * jnp.array([[0.3, 1.0]])])
    move = find(limbs, places, jnp.arange(4), jnp.ones((4, 5), bool), UP)
    assert LIMBS[int(move.limb)] == "leftHand"
    after = limbs.ease.at[2].set(places[4])
    assert limbs.slack(after, move.com) > 0
    assert limbs.slack(limbs.ease, move.com) > 0
    best, _ = limbs.stance(after)  # without looking back it would be higher
    assert best[1] > move.com[1]


def test_the_best_move_is_the_best_of_all_that_are_possible(limbs):
    """Looked for one by one from the best; here all are looked at."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(30):
        places = jnp.asarray(rng.uniform((-1.2, -1.5), (1.2, 2.0), (24, 2)))
        held, _, _ = begin(limbs, places, jnp.array([0.0, 0.2]))
        may, over = jnp.asarray(rng.random((4, 24)) < 0.8), jnp.asarray(rng.random(4) / 2)
        now, move = places[held], find(limbs, places, held, may, UP, over)
        scores = {}
        for limb in range(4):
            for hold in set(np.flatnonzero(may[limb])) - set(held.tolist()):
                after = now.at[limb].set(places[hold])
                gain = float(limbs.gain(after, UP) - limbs.gain(now, UP))
                if limbs.stance(after, now)[1] > 0 and gain > -LOSES * limbs.height:
                    scores[limb, int(hold)] = gain - float(over[limb])
        assert bool(move.found) == bool(scores)
        if scores:
            found += 1
            assert (int(move.limb), int(move.hold)) == max(scores, key=scores.__getitem__)
    assert found > 10


def test_who_wants_to_the_left_goes_to_the_left(limbs):
    holds = (0.3, 1.0), (0.6, 0.7)
    assert moved(limbs, *holds) == ("leftHand", 4)
    assert moved(limbs, *holds, way=jnp.array([1.0, 0.0])) == ("leftHand", 5)


def test_the_first_holds_are_those_at_ease_and_none_is_taken_twice(limbs):
    about = jnp.array([0.1, 1.2])
    places = jnp.concatenate([about + limbs.ease, about + jnp.array([[0.0, 3.0], [2.0, 0.0]])])
    held, com, slack = begin(limbs, places, about)
    assert held.tolist() == [0, 1, 2, 3] and slack > 0
    assert np.linalg.norm(com - about) < 0.25
    few = places[jnp.array([0, 0, 4, 5])]
    held, _, slack = begin(limbs, few, about)
    assert sorted(held.tolist()) == [0, 1, 2, 3] and slack < 0


def ladder(side, low, high):
    """Two holds each 0.35 heights, in front of who stands so far to the left."""
    return [(side + 0.25 * one, z) for z in np.arange(low, high, 0.35) for one in (1, -1)]


# From where all limbs are at ease, one ladder that ends at 1.5 heights, and far to the left, by a
# row for hands and one for feet, another that goes on: from the end of the first it is out of reach
BLIND = ladder(0.0, -0.25, 1.6)
AROUND = [(y, z) for y in np.arange(0.6, 1.9, 0.35) for z in (-0.6, 0.75)] + ladder(2.2, -0.7, 4.0)


def gone(limbs, back, moves=120):
    """How high the limbs of one who goes on by tables alone are in the mean after each move, in
    heights, from ease on; which limb went to which hold, and whether back."""
    places = jnp.concatenate([limbs.ease, limbs.height * jnp.asarray(BLIND + AROUND)])

    @jax.jit
    def step(held, been, last):
        over = 0.3 * limbs.height * (np.arange(4) == last)
        given = been if back else None
        move = best_move(limbs, places, held, been == 0, UP, over, given)
        been, returns = leaving(been, held, move.limb, move.hold)
        return move, jnp.where(np.arange(4) == move.limb, move.hold, held), been, returns

    held, last, ways, went = jnp.arange(4), -1, [0.0], []
    been = holding(jnp.zeros((4, len(places)), int), held)
    for _ in range(moves):
        move, held, been, returns = step(held, been, last)
        if not move.found:
            break
        last = move.limb
        ways.append(float(places[held].mean(axis=0)[1] / limbs.height))
        went.append((int(move.limb), int(move.hold), bool(returns)))
    return ways, went


def test_who_finds_no_move_goes_back_and_around(limbs):
    ways, went = gone(limbs, back=False)
    assert max(ways) < 1.3 and len(went) < 20 and not any(back for *_, back in went)
    around, went = gone(limbs, back=True)
    assert max(around) > 3.0 and any(back for *_, back in went)
    first = next(k for k, (*_, back) in enumerate(went) if back)
    assert max(around[: first + 1]) == pytest.approx(max(ways), abs=0.1)


def test_what_was_taken_back_is_not_tried_again(limbs):
    _, went = gone(limbs, back=True)
    ahead = [move[:2] for move in went if not move[2]]
    assert len(ahead) > 20 and len(set(ahead)) == len(ahead)


def test_moves_are_taken_back_in_the_order_in_which_they_were_made():
    been, held = holding(jnp.zeros((4, 9), int), jnp.arange(4)), jnp.arange(4)
    for limb, hold in ((2, 4), (0, 5), (2, 6)):
        been, back = leaving(been, held, jnp.asarray(limb), jnp.asarray(hold))
        held = held.at[limb].set(hold)
        assert not back
    for limb, hold in ((2, 4), (0, 0), (2, 2)):
        found = np.unravel_index(int(jnp.argmax(been)), been.shape)
        assert found == (limb, hold)
        been, back = leaving(been, held, jnp.asarray(limb), jnp.asarray(hold))
        held = held.at[limb].set(hold)
        assert back
    assert (been <= 0).all() and held.tolist() == [0, 1, 2, 3]
    for limb, hold in ((2, 4), (0, 5), (2, 6), (1, 1)):
        assert been[limb, hold] == GONE
    assert been[3, 4] == 0  # another limb may


def test_nothing_is_taken_back_while_there_is_a_move(limbs):
    places = jnp.concatenate([limbs.ease, limbs.height * jnp.array([[0.3, 0.95], [0.1, -0.7]])])
    back = jnp.zeros((4, 6), int).at[1, 5].set(7).at[3, 4].set(3)
    some = jnp.zeros((4, 6), bool).at[2, 4].set(True)
    move = find(limbs, places, jnp.arange(4), some, UP, None, back)
    assert (int(move.limb), int(move.hold)) == (2, 4)
    move = find(limbs, places, jnp.arange(4), jnp.zeros((4, 6), bool), UP, None, back)
    assert move.found and (int(move.limb), int(move.hold)) == (1, 5)
