# `make run` shows it at work, `make test` proves it. Both install what they need into .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
EXTRAS := service,river,plots,dev,deploy,bench
# the image's Python
PIN := --quiet --python-version 3.11 --python-platform linux --generate-hashes --no-header

.PHONY: help setup run test lint format calibrate paper chaos compare fuzz bench clean broker browser kafka run-kafka tutorial \
	promtool prometheus dashboards linters pins deploy-test image-test sbom

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## make .venv with the project and all extras

$(STAMP): pyproject.toml
	@echo "== installing into .venv (about half a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[$(EXTRAS)]"
	@touch $(STAMP)

run: setup  ## the service at work without a broker: a simulated plant, its changes as they are found, until Ctrl-C
	@$(BIN)/ishsmm-stream serve --embedded

test: lint broker promtool browser linters  ## all tests
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not long and not deploy" -rs

broker: setup  ## make a local Kafka broker ready (Java by apt where we may; its jars go to ~/.cache/ishsmm-stream)
	@if command -v java >/dev/null && command -v mvn >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== installing Java 17 and Maven with apt-get"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless maven; } >/dev/null || true; \
	fi
	@$(BIN)/python deploy/kafka/local_broker.py --prepare

browser: setup  ## make Chromium ready for the tests of the page (by apt where we may)
	@if [ -x /usr/bin/chromium ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== installing Chromium with apt-get"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-inter; } >/dev/null || true; \
	fi

kafka: broker  ## a Kafka broker on 127.0.0.1:9092 until Ctrl-C (PORT=..., DATA=folder keeps its data)
	@$(BIN)/python deploy/kafka/local_broker.py $(if $(PORT),--port $(PORT)) $(if $(DATA),--data $(DATA))

run-kafka: broker  ## the service at work: broker, worker, a demo plant and its events as they come, until Ctrl-C
	@$(BIN)/python deploy/run_kafka.py

promtool: setup  ## make Prometheus and promtool ready (Debian's package, unpacked into ~/.cache/ishsmm-stream)
	@$(BIN)/python deploy/prometheus/local_prometheus.py --prepare

prometheus: promtool  ## a Prometheus with our rules on 127.0.0.1:9090 that scrapes `make run` (PORT=..., TARGET=host:port)
	@$(BIN)/python deploy/prometheus/local_prometheus.py $(if $(PORT),--port $(PORT)) $(if $(TARGET),--target $(TARGET))

linters: setup  ## make the linters of deploy/ ready that pip does not have (shellcheck, by apt where we may)
	@if command -v shellcheck >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== installing shellcheck with apt-get"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends shellcheck; } >/dev/null || true; \
	fi

pins: setup  ## pin what the image is made of anew, with hashes (deploy/requirements.txt)
	$(BIN)/uv pip compile $(PIN) --upgrade --extra service pyproject.toml --output-file deploy/requirements.txt
	echo 'setuptools>=77' | $(BIN)/uv pip compile $(PIN) --upgrade - --output-file deploy/build-requirements.txt

deploy-test: broker promtool linters  ## deploy/ with compose, Helm and schemas, and the service run from the systemd units
	@if command -v docker-compose >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== installing docker-compose with apt-get"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends docker-compose; } >/dev/null || true; \
	fi
	@$(BIN)/python deploy/helm/local_helm.py
	$(BIN)/python -m pytest tests/deploy -rs
	PYTHONPATH=.:tests:deploy/kafka:deploy/prometheus $(BIN)/python tests/units_proof.py

image-test: broker  ## build the image and run it, with buildah and podman over a base made here (root, Debian; minutes)
	@if command -v buildah >/dev/null && command -v podman >/dev/null && command -v debootstrap >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "== installing buildah and podman with apt-get"; \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends buildah podman runc debootstrap; } >/dev/null || true; \
	fi
	PYTHONPATH=.:tests:deploy/kafka $(BIN)/python tests/image_proof.py

sbom: setup  ## what the image is made of, as CycloneDX: out/sbom.json
	@mkdir -p out
	$(BIN)/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml --output-reproducible --of JSON -o out/sbom.json

dashboards: setup  ## write the Grafana dashboards anew
	@$(BIN)/python deploy/grafana/dashboards.py

chaos: broker  ## workers and brokers that die, hang, come and go under load (FAULTS=20 SEED=1; NODES=3: a cluster)
	PYTHONPATH=.:tests:deploy/kafka $(BIN)/python tests/chaos.py --faults $(or $(FAULTS),20) --seed $(or $(SEED),1) $(if $(NODES),--nodes $(NODES))

compare: broker  ## service and library against another commit, byte by byte (REV=HEAD; ONLY=input LOG=kafka: a part of it)
	PYTHONPATH=.:tests:deploy/kafka $(BIN)/python tests/compare.py --rev $(or $(REV),HEAD) $(if $(ONLY),--only $(ONLY)) $(if $(LOG),--log $(LOG))

fuzz: setup  ## forged snapshots, states, records, requests and configurations (MINUTES=6, SEED=...: as printed)
	@for door in snapshots service http; do \
		echo "== $$door"; \
		PYTHONPATH=.:tests $(BIN)/python tests/fuzz_$$door.py --seed $(or $(SEED),$(shell date +%s)) \
			--minutes $$(awk 'BEGIN { print $(or $(MINUTES),6) / 3 }') || exit 1; \
	done

tutorial: broker  ## run docs/tutorial.md and write what its commands print into it
	PYTHONPATH=.:tests:deploy/kafka $(BIN)/python tests/tutorial.py

lint: setup  ## ruff, mypy and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: setup  ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

calibrate: setup browser  ## the long statistical runs: joint-distribution tests and simulation-based calibration
	$(BIN)/python -m pytest -n auto -m long

paper: setup  ## the paper's experiments: its claims beside ours, figures in out/paper (NAMES="ied coal": some of them)
	$(BIN)/ishsmm-stream paper $(NAMES)

bench: setup  ## speed and detection against peers in the same run (about an hour; --quick versions: make bench QUICK=--quick)
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/online.py $(QUICK)
	$(BIN)/python benchmarks/stream.py $(QUICK)
	$(BIN)/python benchmarks/delay.py $(QUICK)
	$(BIN)/python benchmarks/fleet_alarms.py $(QUICK)
	$(BIN)/python benchmarks/service.py $(QUICK)

clean:  ## remove what the targets made
	rm -rf .venv build dist out *.egg-info
