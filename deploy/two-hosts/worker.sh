#!/bin/sh
# Start workers on this host:
#
#   worker.sh TLS SCHEDULER MEMORY [dask worker's options]
#
#   worker.sh tls tls://alpha:8786 8GiB --nworkers 4 --nthreads 2
#
# TLS is the folder that certificates.sh made. MEMORY is that of one worker; `bigsmic plan` says how much is needed.
# Workers end by themselves when they have not seen the scheduler for two minutes.
set -eu
[ $# -ge 3 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tls=$1 scheduler=$2 memory=$3
shift 3
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__MIN_VERSION=1.3
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
exec dask worker "$scheduler" --memory-limit "$memory" --no-dashboard --death-timeout 120 \
    --tls-ca-file "$tls/ca.pem" --tls-cert "$tls/worker.pem" --tls-key "$tls/worker-key.pem" "$@"
