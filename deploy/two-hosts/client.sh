#!/bin/sh
# Run a command that talks to the cluster:
#
#   client.sh TLS COMMAND...
#
#   client.sh tls bigsmic fit /shared/spikes.zarr -c 33 --out /shared/run.zarr --scheduler tls://alpha:8786
#
# TLS is the folder that certificates.sh made.
set -eu
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tls=$1
shift
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__MIN_VERSION=1.3
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$tls/ca.pem"
export DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT="$tls/client.pem"
export DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY="$tls/client-key.pem"
exec "$@"
