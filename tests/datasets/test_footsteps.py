"""Simulated footsteps: gait, propagation, faults, and their truth."""

import numpy as np
import pytest
from scipy.signal import correlate

from gemmed.datasets import FAULT_KINDS, inject_fault, iter_footsteps, make_footsteps
from gemmed.datasets.footsteps.faults import (
    STALE,
    Fault,
    apply_faults,
    draw_bursts,
    faulty_share,
)
from gemmed.datasets.footsteps.simulation import N_SENSORS, RATE
from gemmed.datasets.footsteps.walk import (
    FORE_HOOF,
    HEEL,
    HIND_HOOF,
    SENSOR_POSITIONS,
    SPEED_OF_SOUND,
    TOE,
    Contacts,
    contacts_of,
    draw_walker,
    footstep_sound,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_heels_follow_the_cadence_and_toes_follow_heels():
    walker = draw_walker(False, 60.0, rng(1))
    contacts = contacts_of(walker, 60.0, rng(2))
    heels = np.sort(contacts.times[contacts.kind == HEEL])
    assert np.mean(np.diff(heels)) == pytest.approx(60.0 / walker.cadence, rel=0.02)
    assert set(contacts.kind) == {HEEL, TOE}
    toes = np.sort(contacts.times[contacts.kind == TOE])
    after = toes[toes > heels[0]][: len(heels) - 1] - heels[: len(heels) - 1]
    assert np.median(after) == pytest.approx(walker.toe_delay, rel=0.1)


def test_an_animal_adds_four_beats_a_stride_at_the_speed_of_the_human():
    walker = draw_walker(True, 60.0, rng(3))
    contacts = contacts_of(walker, 60.0, rng(4))
    stride = walker.animal.stride_length / walker.speed
    hooves = np.isin(contacts.kind, [FORE_HOOF, HIND_HOOF])
    assert hooves.sum() == pytest.approx(4 * 60.0 / stride, rel=0.06)
    slope = np.polyfit(contacts.times[hooves], contacts.along[hooves], 1)[0]
    assert slope == pytest.approx(walker.speed, rel=0.02)


def test_sound_arrives_later_and_weaker_the_farther_the_sensor():
    walker = draw_walker(False, 2.0, rng(5))
    # A single strike beside the first sensor.
    along = walker.direction * SENSOR_POSITIONS[0] / np.cos(walker.heading)
    one = Contacts(*(np.array([v]) for v in (0.5, along, 0.0, 1.0)), np.array([HEEL]))
    sounds = footstep_sound(walker, one, 2 * RATE, float(RATE), rng(6))
    y = walker.offset + walker.direction * along * np.sin(walker.heading)
    distances = np.hypot(SENSOR_POSITIONS - SENSOR_POSITIONS[0], y)
    assert np.all(np.diff(np.abs(sounds).max(axis=1)) < 0)
    lag = np.argmax(correlate(sounds[3], sounds[0])) - (2 * RATE - 1)
    assert lag == pytest.approx((distances[3] - distances[0]) / SPEED_OF_SOUND * RATE, abs=2)
    ratio = np.linalg.norm(sounds[3]) / np.linalg.norm(sounds[0])
    assert ratio < distances[0] / distances[3]


def test_a_subject_depends_on_seed_and_name_only():
    few = make_footsteps(1, 1, duration=3.0, random_state=4)
    more = make_footsteps(3, 2, duration=3.0, random_state=4)
    np.testing.assert_array_equal(few.signals[0], more.signals[0])
    np.testing.assert_array_equal(few.signals[1], more.signals[3])
    other = make_footsteps(1, 1, duration=3.0, random_state=5)
    assert not np.allclose(few.signals, other.signals)


def test_outside_its_faults_a_recording_is_what_healthy_sensors_record():
    broken = make_footsteps(6, 6, duration=8.0, random_state=1)
    healthy = make_footsteps(6, 6, duration=8.0, faults=False, random_state=1)
    assert healthy.faults == [[]] * 12
    time = np.arange(broken.signals.shape[-1]) / RATE
    for subject, faults in enumerate(broken.faults):
        for sensor in range(N_SENSORS):
            faulty = np.zeros(len(time), dtype=bool)
            for fault in faults:
                if fault.sensor == sensor:
                    faulty |= (time >= fault.start) & (time < fault.stop)
            pair = broken.signals[subject, sensor], healthy.signals[subject, sensor]
            np.testing.assert_array_equal(pair[0][~faulty], pair[1][~faulty])
            if faulty.any():
                assert np.any(pair[0][faulty] != pair[1][faulty])


def test_sensor_4_fails_most_and_bursts_of_sensor_2_are_longest():
    faults = [
        fault
        for recording in iter_footsteps(120, 0, duration=2.0, random_state=0)
        for fault in recording.faults
    ]
    times = [sum(f.stop - f.start for f in faults if f.sensor == s) for s in range(N_SENSORS)]
    assert int(np.argmax(times)) == 3
    from gemmed.datasets.footsteps.simulation import FAULT_MIXES

    for mix in FAULT_MIXES.values():
        assert max(mix.sensors, key=lambda model: model.mean_burst) is mix.sensors[1]
        assert max(mix.sensors, key=lambda model: model.share) is mix.sensors[3]


def test_the_recorder_fails_at_all_sensors_at_once_and_only_the_recorder_is_stale():
    stale = [
        [fault for fault in recording.faults if fault.kind == STALE]
        for recording in iter_footsteps(40, 40, duration=3.0, random_state=3)
    ]
    assert any(stale)
    for faults in stale:
        times = [{(f.start, f.stop) for f in faults if f.sensor == s} for s in range(N_SENSORS)]
        assert times == times[:1] * N_SENSORS


def high_share(signals):
    """Share of the power between 300 and 1200 Hz in that above 50 Hz."""
    power = np.abs(np.fft.rfft(signals, axis=-1)) ** 2
    frequencies = np.fft.rfftfreq(signals.shape[-1], 1 / RATE)
    band = (frequencies > 300) & (frequencies < 1200)
    return power[..., band].sum() / power[..., frequencies > 50].sum()


def test_a_stale_memory_holds_walks_of_either_kind_whatever_the_class(monkeypatch):
    from gemmed.datasets.footsteps import simulation

    healthy = make_footsteps(16, 16, duration=4.0, faults=False, random_state=5).signals
    always = simulation.FaultModel(0.999, 1e6, {STALE: 1.0})
    never = simulation.FaultModel(0.0, 1.0, {STALE: 1.0})
    mix = simulation.FaultMix((never,) * N_SENSORS, never, always)
    monkeypatch.setitem(simulation.FAULT_MIXES, "realistic", mix)
    data = make_footsteps(16, 16, duration=4.0, random_state=5)
    assert np.mean(data.signals == healthy) < 0.1
    human = data.labels == "human"
    typical = [np.median([high_share(s) for s in healthy[m]]) for m in (human, ~human)]
    like_an_animal = np.array([high_share(s) for s in data.signals]) > np.mean(typical)
    # Of both classes some sound like an animal and some do not.
    for members in (human, ~human):
        assert 0.2 < like_an_animal[members].mean() < 0.8


def test_a_stale_memory_needs_something_to_hold():
    with pytest.raises(ValueError, match="earlier=None"):
        apply_faults(np.zeros((1, 100)), [Fault(0, STALE, 0.0, 0.01)], RATE, rng())


def test_the_mix_of_faults_has_a_name():
    strong, usual = (
        make_footsteps(1, 0, duration=6.0, faults=faults, random_state=1).faults[0]
        for faults in ("strong", True)
    )
    assert sum(f.stop - f.start for f in strong) > sum(f.stop - f.start for f in usual)
    with pytest.raises(ValueError, match="faults='rust'"):
        make_footsteps(1, 0, faults="rust")


@pytest.mark.parametrize(("share", "length"), [(0.3, 8.0), (0.05, 20.0)])
def test_bursts_have_the_asked_share_and_mean_length(share, length):
    chain = draw_bursts(400_000, share, length, rng(7))
    assert chain.mean() == pytest.approx(share, rel=0.1)
    entries = int(np.sum(np.diff(chain.astype(int)) == 1))
    assert chain.sum() / entries == pytest.approx(length, rel=0.05)


def test_impossible_chains_are_refused():
    with pytest.raises(ValueError, match=r"share=1\.0"):
        draw_bursts(10, 1.0, 3.0, rng())
    with pytest.raises(ValueError, match=r"mean_burst=0\.5"):
        draw_bursts(10, 0.1, 0.5, rng())
    with pytest.raises(ValueError, match="lengthen"):
        draw_bursts(10, 0.9, 2.0, rng())


def footsteps_without_faults():
    return make_footsteps(1, 0, duration=6.0, faults=False).signals[0, 1].astype(float)


def spectrum(signal):
    return np.abs(np.fft.rfft(signal)), np.fft.rfftfreq(len(signal), 1 / RATE)


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_changes_a_copy_and_stays_finite(kind):
    signal = footsteps_without_faults()
    before = signal.copy()
    broken = inject_fault(signal, kind, RATE, rng(8))
    np.testing.assert_array_equal(signal, before)
    assert broken.shape == signal.shape
    assert np.isfinite(broken).all()
    assert np.mean(broken != signal) > 0.1


def test_each_fault_has_its_signature():
    signal = footsteps_without_faults()

    def power(x):
        return np.mean(x**2)

    broken = {kind: inject_fault(signal, kind, RATE, rng(9)) for kind in FAULT_KINDS}
    amplitude, frequencies = spectrum(broken["noise"] - signal)
    halves = [power(amplitude[frequencies < 1000]), power(amplitude[frequencies >= 1000])]
    assert halves[0] == pytest.approx(halves[1], rel=0.2)
    assert power(broken["dropout"]) < 0.5 * power(signal)
    peak = np.abs(broken["clipping"]).max()
    assert np.mean(np.abs(broken["clipping"]) == peak) > 0.2
    assert np.mean(np.diff(broken["stuck"]) == 0) > 0.9
    change = np.abs(broken["spikes"] - signal)
    assert np.mean(change < 0.01 * change.max()) > 0.4
    amplitude, frequencies = spectrum(broken["hum"] - signal)
    strongest = frequencies[np.argmax(amplitude)]
    assert min(strongest % 50, 50 - strongest % 50, strongest % 60, 60 - strongest % 60) < 3
    lost = spectrum(broken["gain_loss"])[0] / spectrum(signal)[0]
    assert np.median(lost[frequencies < 80]) > 3 * np.median(lost[frequencies > 600])


def test_wrong_faults_are_refused():
    with pytest.raises(ValueError, match="kind='rust'"):
        inject_fault(np.ones(10), "rust", RATE, rng())
    with pytest.raises(ValueError, match="rate=0"):
        inject_fault(np.ones(10), "hum", 0, rng())
    with pytest.raises(ValueError, match="shape"):
        inject_fault(np.ones((2, 10)), "hum", RATE, rng())
    with pytest.raises(ValueError, match="finite"):
        inject_fault([1.0, np.nan], "hum", RATE, rng())


def test_faulty_share_counts_overlapping_faults_once():
    faults = [Fault(0, "hum", 1.0, 2.0), Fault(0, "noise", 1.5, 2.5), Fault(1, "hum", 0.0, 0.5)]
    shares = faulty_share(faults, 2, [0.0, 1.0, 2.25], 1.0)
    np.testing.assert_allclose(shares, [[0.0, 1.0, 0.25], [0.5, 0.0, 0.0]])
    moved = faulty_share(faults, 2, [[1.25], [0.25]], 1.0)
    np.testing.assert_allclose(moved, [[1.0], [0.25]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_human": 0, "n_animal": 0}, "at least one subject"),
        ({"duration": 0.0}, "duration=0.0"),
        ({"rate": 500}, "rate=500"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_footsteps(**{"n_human": 1, "n_animal": 0, **options})
