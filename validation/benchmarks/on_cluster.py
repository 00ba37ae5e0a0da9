"""One measurement on a cluster: `python -m validation.benchmarks.on_cluster KIND ARGUMENTS`, JSON on the last line.

Workers import what is above the guard of the module that starts them: nothing, so that they need neither PyMC nor its memory.
"""

if __name__ == "__main__":
    import json
    import sys

    from validation.benchmarks.clusters import KINDS

    print(json.dumps(KINDS[sys.argv[1]](*sys.argv[2:])))
