#!/bin/sh
# sbatch slurm-array.sh
#
# One task of the array is one part of a sweep. When all are done, joined on a node
# that sees the same folder (`afterany`: a part with a case that does not hold ends
# with code 1, and is joined all the same):
#
#   job=$(sbatch --parsable slurm-array.sh)
#   sbatch --dependency=afterany:"$job" --wrap 'mverify merge verify-*.json && mbench merge bench-*.json --out sweep.jsonl'
#
#SBATCH --job-name=minfer
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=02:00:00

part="$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
mverify --suite all --device cpu,soft --tier full --shard "$part" --format json --out "verify-$SLURM_ARRAY_TASK_ID.json"
verified=$?
mbench --sweep attention,matmul --device soft --shard "$part" --format json --out "bench-$SLURM_ARRAY_TASK_ID.json" || exit
exit "$verified"
