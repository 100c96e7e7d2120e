#!/bin/bash
# A command of levelhead on the nodes of a Slurm job:
#
#   sbatch --nodes=4 --gpus-per-node=8 --export=ALL,LEVELHEAD_INTERFACE=ib0 deploy/slurm.sh \
#       heads MODEL --workers 16 --gpus-per-worker 2 --device-map auto -o RUN
#
# The first node runs the driver, all of them workers. A model that a node does not see is sent to it. Nodes
# reach each other at their addresses on LEVELHEAD_INTERFACE. Ray itself listens on all interfaces of a node; it
# answers only who has this job's token, without encryption.
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -euo pipefail
umask 077

if [ $# -eq 0 ]; then
    echo "Give a command of levelhead: sbatch deploy/slurm.sh heads MODEL --workers 4 -o RUN" >&2
    exit 2
fi
: "${LEVELHEAD_INTERFACE:?Name the network interface of the nodes, for example ib0}"
port=${LEVELHEAD_PORT:-6379}
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 HF_HUB_OFFLINE=1
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}

# what each node runs: its own address, and a folder that only this user can enter
# shellcheck disable=SC2016 # expanded there
begin='
umask 077
place=$(mktemp -d "${TMPDIR:-/tmp}/lh-XXXXXX")
trap "rm -rf \"$place\"" EXIT
own=$(ip -o -4 addr show dev "$LEVELHEAD_INTERFACE" | awk "{split(\$4, a, \"/\"); print a[1]; exit}")
[ -n "$own" ] || { echo "$(hostname) has no address on $LEVELHEAD_INTERFACE" >&2; exit 1; }
echo "$own" > "$1/$(hostname).address"
if [ "$2" = head ]; then
    ray start --head --node-ip-address="$own" --port="$3" --num-cpus=0 --num-gpus=0 \
        --include-dashboard=false --temp-dir="$place/ray" --disable-usage-stats --block
else
    ray start --address="$2" --node-ip-address="$own" --num-cpus="${SLURM_CPUS_ON_NODE:-1}" \
        --temp-dir="$place/ray" --disable-usage-stats --block
fi'

meeting=$(mktemp -d "${LEVELHEAD_MEETING:-$PWD}/.lh-meeting-XXXXXX") # a folder that all nodes see
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$meeting"' EXIT

srun --overlap --nodes=1 --ntasks=1 -w "$head" bash -c "$begin" begin "$meeting" head "$port" &
for ((waited = 0; waited < 300; waited++)); do
    addresses=("$meeting"/*.address)
    [ -s "${addresses[0]}" ] && break
    sleep 1
done
address="$(cat "${addresses[0]}"):$port"
until (exec 3<>"/dev/tcp/${address%:*}/$port") 2>/dev/null; do
    jobs -r | grep -q . || { echo "The head of the Ray cluster ended" >&2; exit 1; }
    sleep 1
done

srun --overlap --nodes="${#nodes[@]}" --ntasks="${#nodes[@]}" bash -c "$begin" begin "$meeting" "$address" "$port" &

CUDA_VISIBLE_DEVICES='' srun --overlap --nodes=1 --ntasks=1 -w "$head" levelhead "$@" --ray "$address"
