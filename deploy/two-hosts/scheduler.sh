#!/bin/sh
# Start the scheduler on this host, as the other hosts know it:
#
#   scheduler.sh TLS HOST [PORT]
#
# TLS is the folder that certificates.sh made. The dashboard, which knows no password, listens on this host alone:
# `ssh -L 8787:localhost:8787 HOST` shows it elsewhere.
set -eu
[ $# -ge 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tls=$1
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__COMM__TLS__MIN_VERSION=1.3
exec dask scheduler --protocol tls --host "$2" --port "${3:-8786}" --dashboard-address 127.0.0.1:8787 \
    --tls-ca-file "$tls/ca.pem" --tls-cert "$tls/scheduler.pem" --tls-key "$tls/scheduler-key.pem"
