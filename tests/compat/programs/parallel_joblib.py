"""02, lines 23940-23960, CREF-188: joblib and a search of scikit-learn, on the back end "ray"."""

import joblib
import numpy as np
import ray
from ray.util.joblib import register_ray
from sklearn.datasets import load_digits
from sklearn.model_selection import RandomizedSearchCV
from sklearn.svm import SVC

ray.init()
register_ray()
digits = load_digits()
search = RandomizedSearchCV(
    SVC(kernel="rbf"), {"C": np.logspace(-1, 2, 8), "gamma": np.logspace(-4, -2, 6)}, cv=2, n_iter=3, random_state=0
)
with joblib.parallel_backend("ray", n_jobs=2):
    print(joblib.Parallel()(joblib.delayed(pow)(number, 2) for number in range(5)))
    search.fit(digits.data[:300], digits.target[:300])
print(sorted(search.best_params_), search.best_score_ > 0.3)

# prints:
# [0, 1, 4, 9, 16]
# ['C', 'gamma'] True
