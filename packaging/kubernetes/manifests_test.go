// Package kubernetes checks the manifests in this folder.
package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifests are the documents of a file as Kubernetes takes them. A field that there is not is an error.
func manifests(t *testing.T) (all []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(read(t, "memtrace.yaml"))))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		all = append(all, object)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// strictly decodes YAML as Kubernetes does: a field that there is not, or one with a small letter for a large one, is an
// error.
func strictly(text []byte, into any) error {
	text, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	unknown, err := sigsjson.UnmarshalStrict(text, into)
	return errors.Join(append(unknown, err)...)
}

// one is the manifest of a type.
func one[T runtime.Object](t *testing.T) (found T) {
	t.Helper()
	n := 0
	for _, object := range manifests(t) {
		if is, ok := object.(T); ok {
			found, n = is, n+1
		}
	}
	if n != 1 {
		t.Fatalf("%d manifests are a %T", n, found)
	}
	return found
}

// patched is the DaemonSet after kubectl patch --patch-file.
func patched(t *testing.T, files ...string) *appsv1.DaemonSet {
	t.Helper()
	text, err := sigsyaml.Marshal(one[*appsv1.DaemonSet](t))
	if err == nil {
		text, err = sigsyaml.YAMLToJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// What is misspelt in a patch is no field of the result: the types would drop it.
		if err := strictly(read(t, file), new(appsv1.DaemonSet)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		patch, err := sigsyaml.YAMLToJSONStrict(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = strategicpatch.StrategicMergePatch(text, patch, appsv1.DaemonSet{}); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	set := new(appsv1.DaemonSet)
	if err := strictly(text, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// agent is the only container of a DaemonSet.
func agent(t *testing.T, set *appsv1.DaemonSet) *corev1.Container {
	t.Helper()
	pod := &set.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("%d containers, %d for its start", len(pod.Containers), len(pod.InitContainers))
	}
	return &pod.Containers[0]
}

// unit is what the units of systemd say for a key, the last of them. They are what the manifests are to be like.
func unit(t *testing.T, key string, files ...string) (value string) {
	t.Helper()
	for _, file := range files {
		for line := range strings.Lines(string(read(t, "../systemd/"+file))) {
			if is, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
				value = is
			}
		}
	}
	if value == "" {
		t.Fatalf("no unit says %s=", key)
	}
	return value
}

// The agent has the capabilities and the limits that it has as a service of systemd, and nothing else.
func TestRightsAreTheUnits(t *testing.T) {
	for _, c := range []struct {
		patches, units []string
	}{
		{nil, []string{"memtrace.service"}},
		{[]string{"growth.yaml"}, []string{"memtrace.service", "memtrace-growth.conf"}},
		{[]string{"growth.yaml", "tls.yaml"}, []string{"memtrace.service", "memtrace-growth.conf"}},
	} {
		set := patched(t, c.patches...)
		container := agent(t, set)
		security := container.SecurityContext
		var want []corev1.Capability
		for _, file := range c.units {
			for name := range strings.FieldsSeq(unit(t, "CapabilityBoundingSet", file)) {
				want = append(want, corev1.Capability(strings.TrimPrefix(name, "CAP_")))
			}
		}
		add, drop := security.Capabilities.Add, security.Capabilities.Drop
		if !slices.Equal(add, want) || !slices.Equal(drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%v: capabilities %v without %v, want %v", c.patches, add, drop, want)
		}
		if *security.Privileged || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem ||
			security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%v: %+v", c.patches, security)
		}
		memory := resource.MustParse(unit(t, "MemoryMax", c.units...) + "i")
		cpu := resource.MustParse(strings.TrimSuffix(unit(t, "CPUQuota", c.units...), "%") + "0m")
		if is := container.Resources.Limits; !is.Memory().Equal(memory) || !is.Cpu().Equal(cpu) {
			t.Errorf("%v: limits %v, want %v and %v", c.patches, is, memory, cpu)
		}
		if is := "GOMEMLIMIT=" + container.Env[0].Value; is != unit(t, "Environment", c.units...) {
			t.Errorf("%v: %s", c.patches, is)
		}
		if is := *set.Spec.Template.Spec.TerminationGracePeriodSeconds; len(c.units) > 1 &&
			strconv.FormatInt(is, 10) != unit(t, "TimeoutStopSec", c.units...) {
			t.Errorf("%v: ends within %d s", c.patches, is)
		}
	}
}

// It sees the node's processes, and of its files what it is given: nothing to write to, unless recordings are kept.
func TestWhatItSees(t *testing.T) {
	logs := map[string]string{"/var/log/pods": "/var/log/pods", "/var/log/containers": "/var/log/containers"}
	withData := maps.Clone(logs)
	withData["/var/lib/memtrace"] = "/var/lib/" + unit(t, "StateDirectory", "memtrace-growth.conf")
	for _, c := range []struct {
		patches []string
		want    map[string]string // of the node, by where it is in the container
	}{{nil, logs}, {[]string{"growth.yaml"}, withData}, {[]string{"tls.yaml"}, logs}} {
		set := patched(t, c.patches...)
		pod := set.Spec.Template.Spec
		token := *pod.AutomountServiceAccountToken || *one[*corev1.ServiceAccount](t).AutomountServiceAccountToken
		if !pod.HostPID || pod.HostNetwork || pod.HostIPC || token {
			t.Errorf("%v: %+v", c.patches, pod)
		}
		volumes := make(map[string]corev1.Volume)
		for _, v := range pod.Volumes {
			volumes[v.Name] = v
		}
		got := make(map[string]string)
		for _, m := range agent(t, set).VolumeMounts {
			v, ok := volumes[m.Name]
			if !ok || !m.ReadOnly && m.MountPath != "/var/lib/memtrace" {
				t.Errorf("%v: mount %+v", c.patches, m)
			}
			if v.HostPath != nil {
				got[m.MountPath] = v.HostPath.Path
			}
			delete(volumes, m.Name)
		}
		if !maps.Equal(got, c.want) || len(volumes) != 0 {
			t.Errorf("%v: mounts %v, want %v; not mounted: %v", c.patches, got, c.want, volumes)
		}
	}
}

// Who selects by a label or a name finds it, and the port is the agent's.
func TestNamesFit(t *testing.T) {
	set, policy, config := one[*appsv1.DaemonSet](t), one[*networkingv1.NetworkPolicy](t), one[*corev1.ConfigMap](t)
	labels, container := set.Spec.Template.Labels, agent(t, set)
	monitor := new(monitoringv1.PodMonitor)
	if err := strictly(read(t, "podmonitor.yaml"), monitor); err != nil {
		t.Fatal(err)
	}
	for what, is := range map[string]map[string]string{
		"DaemonSet": set.Spec.Selector.MatchLabels, "NetworkPolicy": policy.Spec.PodSelector.MatchLabels,
		"PodMonitor": monitor.Spec.Selector.MatchLabels,
	} {
		if !maps.Equal(is, labels) {
			t.Errorf("the %s selects %v, not %v", what, is, labels)
		}
	}
	namespace := one[*corev1.Namespace](t).Name
	for what, is := range map[string]string{
		"DaemonSet": set.Namespace, "NetworkPolicy": policy.Namespace, "ConfigMap": config.Namespace,
		"ServiceAccount": one[*corev1.ServiceAccount](t).Namespace, "PodMonitor": monitor.Namespace,
	} {
		if is != namespace {
			t.Errorf("the %s is in the namespace %q", what, is)
		}
	}
	port := container.Ports[0]
	for what, is := range map[string]string{
		"PodMonitor": *monitor.Spec.PodMetricsEndpoints[0].Port, "NetworkPolicy": policy.Spec.Ingress[0].Ports[0].Port.StrVal,
		"liveness": container.LivenessProbe.HTTPGet.Port.StrVal, "readiness": container.ReadinessProbe.HTTPGet.Port.StrVal,
		"liveness with TLS":  agent(t, patched(t, "tls.yaml")).LivenessProbe.TCPSocket.Port.StrVal,
		"readiness with TLS": agent(t, patched(t, "tls.yaml")).ReadinessProbe.TCPSocket.Port.StrVal,
	} {
		if is != port.Name {
			t.Errorf("the %s asks at the port %q", what, is)
		}
	}
	listen := struct{ Listen string }{}
	if err := sigsyaml.Unmarshal([]byte(config.Data["memtrace.yaml"]), &listen); err != nil {
		t.Fatal(err)
	}
	annotated := set.Spec.Template.Annotations["prometheus.io/port"]
	if port.ContainerPort != 9417 || listen.Listen != ":9417" || annotated != "9417" {
		t.Errorf("ports %d, %s, %s", port.ContainerPort, listen.Listen, annotated)
	}
	mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == "config" && strings.HasPrefix(container.Args[2], m.MountPath+"/")
	})
	if !mounted || config.Name != "memtrace" {
		t.Errorf("%v of %v", container.Args, container.VolumeMounts)
	}
}

// A field that is misspelt is found, in a patch, too: Kubernetes drops it without a word.
func TestMisspeltFieldsAreFound(t *testing.T) {
	for _, text := range []string{
		"spec: {template: {spec: {hostPid: true}}}", "spec: {templates: {}}", "spec: {}\nspec: {}",
	} {
		if strictly([]byte(text), new(appsv1.DaemonSet)) == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
