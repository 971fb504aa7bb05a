#!/usr/bin/env bash
# Installs the Debian packages in a copy-on-write view of this machine's files,
# starts the server as the unit does, and purges the packages. Run it as root in
# new namespaces: mounts, processes and the network end with the namespaces, and
# the machine itself does not change.
#
# usage: unshare --mount --net --pid --fork --kill-child \
#          debian_install.sh FOLDER DEB...    FOLDER is empty
set -euo pipefail

if [ "$1" != --inside ]; then
  folder=$1
  shift
  mount -t tmpfs tmpfs "$folder"
  root=$folder/root
  mkdir "$folder"/{changed,work} "$root"
  mount -t overlay overlay "$root" -o \
    "lowerdir=/,upperdir=$folder/changed,workdir=$folder/work"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  for path in run tmp dev/shm; do mount -t tmpfs tmpfs "$root/$path"; done
  cp "$0" "$(dirname "$0")/../../../deploy/data/digits_similarity.npy" "$@" \
    "$root/tmp"
  ip link set lo up
  exec chroot "$root" "/tmp/$(basename "$0")" --inside
fi

cd /tmp
unit=/usr/lib/systemd/system/topkd.service
settings=/etc/topkd/topkd.env
step() { echo "== $*"; }
fail() {
  echo "FAILED: $*"
  exit 1
}
value() { sed -n "s/^$1=//p" "$unit"; }  # prints a setting of the unit
# Excludes the files of containers that run on this machine.
list_files() {
  find /etc /usr /var \( -path '*/pods' -o -path '/var/*/contain*' \) -prune \
    -o -iname '*topk*' -print | sort
}

# start: runs ExecStart as the user, and waits until the server is ready.
start() {
  local command
  command="env $(value Environment) $(grep -v '^#' "$(value EnvironmentFile)") \
    $(value ExecStart)"
  install -d -o topkd -g topkd /run/topkd
  # shellcheck disable=SC2086  # systemd splits the command at spaces too
  setpriv --reuid topkd --regid topkd --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all $command &
  MAINPID=$!
  timeout 30 sh -c "until topk health $*; do \
    kill -0 $MAINPID || exit 1; sleep 0.1; done"
}
# stop: ends the server, and fails unless it exits with 0.
stop() {
  kill "$MAINPID"
  wait "$MAINPID"
  rm -r /run/topkd
}

list_files >before
step "install"
dpkg --install ./*.deb
[ "$(stat -c '%U:%G %a' /etc/topkd)" = "root:topkd 750" ] ||
  fail "others may read /etc/topkd"
[ -L /etc/systemd/system/multi-user.target.wants/topkd.service ] ||
  fail "the service does not start with the machine"

step "unit"
systemd-analyze verify --man=no "$unit"
systemd-analyze verify --man=no topkd@9101.service
# In tenths: 2.0 is the highest exposure that systemd-analyze calls "OK".
systemd-analyze security --offline=true --threshold=20 "$unit" | tail -n 1
starts=$(($(value StartLimitIntervalSec) /
  ($(value TimeoutStartSec) + $(value RestartSec))))
[ "$starts" -ge "$(value StartLimitBurst)" ] ||
  fail "systemd never gives up on a server that does not become ready"

step "service"
start
topk info
diff <(topk run digits_similarity.npy --k 3) \
  <(topk run digits_similarity.npy --k 3 --local)
stop

step "C++ client"
pkg-config --print-errors --exists "topk = $(topk --version | sed 's/.* //')"
[ -e "$(pkg-config --variable=libdir topk)/libtopk_client.a" ]

step "reinstall with changed settings"
sed -i 's/^TOPKD_LISTEN=.*/TOPKD_LISTEN=127.0.0.1:50061/' "$settings"
chown :daemon /etc/topkd
chmod 0755 /etc/topkd
dpkg --install ./*.deb
[ "$(stat -c '%U:%G %a' /etc/topkd)" = "root:daemon 755" ] ||
  fail "an upgrade changes the permissions of /etc/topkd"
start --target 127.0.0.1:50061
stop

step "upgrade"
echo 'TOPKD_THREADS=many' >>"$settings"
# Fake systemd programs, which log their arguments and report a drop-in.
mkdir -p /run/systemd/system
echo PrivateDevices=no >drop-in
for program in systemctl deb-systemd-invoke; do
  # shellcheck disable=SC2016  # the stand-in expands them
  printf '#!/bin/sh\necho "$@" >>/tmp/invoked\n[ "$1" != show ] || echo %s\n' \
    /tmp/drop-in >/usr/local/bin/$program
  chmod +x /usr/local/bin/$program
done
if dpkg --install ./topkd_*.deb 2>warning; then
  fail "an upgrade succeeds with wrong settings"
fi
grep 'the old process keeps serving' warning ||
  fail "an upgrade is silent about wrong settings"
[ "$(dpkg-query -W -f '${Status}' topkd)" = "install ok half-configured" ] ||
  fail "the package is configured with wrong settings"
if grep -E '(restart|stop) topkd' invoked; then
  fail "an upgrade restarts with wrong settings"
fi
sed -i '/^TOPKD_THREADS=many/d' "$settings"
# A key that root can read, but not the server.
install -m 600 /dev/null /etc/topkd/server.key
printf 'TOPKD_TLS_%s=/etc/topkd/server.key\n' CERT KEY >>"$settings"
if dpkg --configure topkd 2>warning || ! grep -i 'permission' warning; then
  fail "the settings are not checked as the server's user: $(cat warning)"
fi
sed -i '/^TOPKD_TLS_/d' "$settings"
touch /etc/topkd/topkd.toml
if dpkg --configure topkd 2>warning || ! grep 'no longer read' warning; then
  fail "settings in an old topkd.toml are silently lost: $(cat warning)"
fi
rm /etc/topkd/topkd.toml
dpkg --configure topkd
grep -x 'restart topkd.service' invoked || fail "an upgrade does not restart"

step "purge"
ln -s "${unit%.service}@.service" \
  /etc/systemd/system/multi-user.target.wants/topkd@9101.service
purge() {
  dpkg --purge topkd topkd-dbgsym topkd-dev
  list_files | diff before - || fail "files are left"
}
purge
grep -Fx 'stop topkd@*.service' invoked || fail "instances keep running"

step "override of permissions"
dpkg-statoverride --add root topkd 0755 /etc/topkd
dpkg --install ./*.deb
[ "$(stat -c '%U:%G %a' /etc/topkd)" = "root:topkd 755" ] ||
  fail "the override is ignored"
purge
