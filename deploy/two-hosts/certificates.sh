#!/bin/sh
# Make a certificate authority, and certificates for scheduler, workers and clients:
#
#   certificates.sh FOLDER [DAYS]
#
# FOLDER/tls goes to every host. Its keys are readable by their owner alone: whoever has one can run code on all hosts,
# for Dask asks that a certificate be signed by this authority, not whose it is. FOLDER/ca-key.pem, which signs, goes
# nowhere. A second call keeps the authority and makes new certificates, before the old ones end (365 DAYS).
# What is there is replaced when all that replaces it is there.
set -eu
usage() {
    sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] || usage
folder=$1
days=${2:-365}
case $days in
'' | 0* | *[!0-9]*) echo "certificates.sh: DAYS: got '$days'; give a number of days, such as 365" >&2 && usage ;;
esac
umask 077
mkdir -p "$folder/tls"
new=$(mktemp -d "$folder/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT

key() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

if [ ! -e "$folder/ca-key.pem" ]; then
    key "$new/ca-key"
    openssl req -x509 -new -key "$new/ca-key" -days 3650 -subj "/CN=bigsmic cluster" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$new/ca"
    mv "$new/ca" "$folder/tls/ca.pem"
    mv "$new/ca-key" "$folder/ca-key.pem" # last: what has it has an authority
fi

# every role answers and calls: workers fetch from each other
cat >"$new/extensions" <<END
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
END
for role in scheduler worker client; do
    key "$new/$role-key.pem"
    openssl req -new -key "$new/$role-key.pem" -subj "/CN=bigsmic $role" |
        openssl x509 -req -days "$days" -CA "$folder/tls/ca.pem" -CAkey "$folder/ca-key.pem" -set_serial \
            "0x$(openssl rand -hex 16)" -extfile "$new/extensions" -out "$new/$role.pem"
done
mv "$new"/*.pem "$folder/tls/"
echo "$folder/tls: certificates for $days days"
