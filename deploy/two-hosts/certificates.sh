#!/bin/sh
# Make a certificate authority, and certificates for scheduler, workers and clients:
#
#   certificates.sh FOLDER [DAYS]
#
# FOLDER/tls goes to every host. Its keys are readable by their owner alone: whoever has one can run code on all hosts,
# for Dask asks that a certificate be signed by this authority, not whose it is. FOLDER/ca-key.pem, which signs, goes
# nowhere. A second call keeps the authority and makes new certificates, before the old ones end (365 DAYS).
set -eu
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
days=${2:-365}
umask 077
mkdir -p "$folder/tls"

key() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

if [ ! -e "$folder/ca-key.pem" ]; then
    key "$folder/ca-key.pem"
    openssl req -x509 -new -key "$folder/ca-key.pem" -days 3650 -subj "/CN=bigsmic cluster" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$folder/tls/ca.pem"
fi

# every role answers and calls: workers fetch from each other
extensions=$(mktemp)
trap 'rm -f "$extensions"' EXIT
cat >"$extensions" <<END
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
END
for role in scheduler worker client; do
    key "$folder/tls/$role-key.pem"
    openssl req -new -key "$folder/tls/$role-key.pem" -subj "/CN=bigsmic $role" |
        openssl x509 -req -days "$days" -CA "$folder/tls/ca.pem" -CAkey "$folder/ca-key.pem" -set_serial \
            "0x$(openssl rand -hex 16)" -extfile "$extensions" -out "$folder/tls/$role.pem"
done
echo "$folder/tls: certificates for $days days"
