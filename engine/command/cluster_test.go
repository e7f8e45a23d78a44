package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn is an sbatch that does the tasks of an array here, one by one. The first array loses
// the node of its second task.
const standIn = `#!/bin/bash
set -e
[[ $1 == --wait && $2 == --parsable ]] || { echo "unknown flags $*" >&2; exit 1; }
script=$3
echo "$(grep -c . "$script") 7;cluster" | cut -d' ' -f2
cp "$script" "$(dirname "$0")/submitted.$(ls "$(dirname "$0")" | wc -l)"
last=$(sed -n 's/^#SBATCH --array=0-//p' "$script")
for i in $(seq 0 "$last"); do
	if [[ $i == 1 && ! -e $(dirname "$0")/lost ]]; then touch "$(dirname "$0")/lost"; continue; fi
	SLURM_ARRAY_TASK_ID=$i bash "$script" >/dev/null
done
`

// TestSlurm: the runs of a sweep are tasks of an array, and a run that was lost with its node is
// submitted again.
func TestSlurm(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "sbatch"), []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "it's a sweep")
	args := []string{"sweep", "--slurm", "--partition", "gpu", "--time", "00:10:00", "--gres", "gpu:1", "--mem", "4G", "--account", "lab", "--qos", "high", "--constraint", "h100|h200", "--sbatch-arg", "--exclusive", "--sbatch-arg", "exclude=n7",
		"--device", "emu:resnet50-h100", "--num-workers", "0,2", "--steps", "5", "--warmup", "1", "--batch-size=4", "--out", dir}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "slurm.sh") != 2 || !strings.Contains(string(out), "2 tasks") || !strings.Contains(string(out), "1 task\n") || !strings.Contains(string(out), "| 2           |") {
		t.Fatalf("%v:\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(dir, "slurm.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#SBATCH --array=0-0\n", "#SBATCH --partition=gpu\n", "#SBATCH --time=00:10:00\n", "#SBATCH --gres=gpu:1\n",
		"#SBATCH --cpus-per-task=3\n", "#SBATCH --mem=4G\n", "#SBATCH --account=lab\n", "#SBATCH --qos=high\n", "#SBATCH --constraint=h100|h200\n", "#SBATCH --exclusive\n", "#SBATCH --exclude=n7\n"} {
		if !strings.Contains(string(script), want) {
			t.Errorf("the script lacks %q:\n%s", want, script)
		}
	}
}

// TestSlurmScript: only the script is written, for a device that this machine lacks.
func TestSlurmScript(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	r := gpustall(t, "sweep", "--slurm-script", "--device", "cuda", "--num-workers", "0,2", "--repeat", "2", "--out", dir)
	script, err := os.ReadFile(filepath.Join(dir, "slurm.sh"))
	if r.code != 0 || err != nil || !strings.Contains(string(script), "#SBATCH --array=0-3\n") || strings.Count(string(script), "'--device=cuda'") != 4 {
		t.Errorf("exit %d, %v: %s\n%s", r.code, err, r.stderr, script)
	}
	if out, err := exec.Command("bash", "-n", filepath.Join(dir, "slurm.sh")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	yours := filepath.Join(t.TempDir(), "yours")
	r = gpustall(t, "sweep", "--slurm-script", "--knob", "n=1,2", "--knob", "num_workers=2,6", "--knob", "in_order=off", "--out", yours, "--", "python", "train.py", "-n", "{n}")
	script, err = os.ReadFile(filepath.Join(yours, "slurm.sh"))
	for _, want := range []string{"#SBATCH --cpus-per-task=7\n", "'torch' '--json'", "'--set' 'in_order=off' '--set' 'num_workers=6' '--' 'python' 'train.py' '-n' '2' ;;"} {
		if r.code != 0 || err != nil || !strings.Contains(string(script), want) {
			t.Errorf("exit %d, %v: %s; the script lacks %q:\n%s", r.code, err, r.stderr, want, script)
		}
	}
	cmd := exec.Command(binary, "sweep", "--slurm", "--device", "cuda", "--num-workers", "0,2", "--out", dir)
	cmd.Env = append(os.Environ(), "PATH=/nowhere")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "find sbatch: there is no such program") {
		t.Errorf("without sbatch: %v: %s", err, out)
	}
}
