"""scikit-learn's estimator checks of the sensor estimators; every expected failure has a reason."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed import SensorDetector, SensorGEMMEDClassifier
from gemmed.sensors import SensorMonitor

TOO_FEW_ROWS = "the check fits fewer than 25 rows: five blocks of a window and a lag are needed"
EXPECTED = {
    SensorMonitor: dict.fromkeys(
        [
            "check_dict_unchanged",
            "check_dont_overwrite_parameters",
            "check_estimators_dtypes",
            "check_estimators_fit_returns_self",
            "check_estimators_overwrite_params",
            "check_f_contiguous_array_estimator",
            "check_fit2d_1feature",
            "check_fit2d_predict1d",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in_after_fitting",
            "check_readonly_memmap_input",
        ],
        TOO_FEW_ROWS,
    ),
    SensorGEMMEDClassifier: {
        "check_sample_weight_equivalence_on_dense_data": "good readings are learned without weights"
    },
}


@parametrize_with_checks(
    [SensorDetector(), SensorGEMMEDClassifier(), SensorMonitor(lags=(1,), window=4)],
    expected_failed_checks=lambda estimator: EXPECTED.get(type(estimator), {}),
)
def test_estimator(estimator, check):
    check(estimator)
