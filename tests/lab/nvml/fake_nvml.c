/* A stand-in for libnvidia-ml.so.1 with the driver's symbols and structures, answering from the text file $FAKE_NVML:
 * lines `gpu.0.uuid=GPU-...`. A fact that is not in the file is NVML_ERROR_NOT_SUPPORTED; a value `!15` is that error.
 * With -DOLD_DRIVER the functions that came after driver 390 are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int uint;
typedef unsigned long long u64;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
typedef struct { char legacy[16]; uint domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { u64 total, free, used; } memory_info;
typedef struct { uint gpu, memory; } utilization;
typedef struct { uint mp, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; u64 memory_mb; } attributes;
typedef struct { void *device; uint id, profile, start, size; } instance_info;
typedef struct { uint field, scope; long long at, took; uint kind, code; u64 value; } field_value;
typedef struct { char cluster[16]; uint status, clique; unsigned char state; } fabric_info;

static struct { char key[64], value[128]; } facts[8192];
static int known;
static char handles[1024][40];
static int handed;

static int load(void) {
    const char *path = getenv("FAKE_NVML");
    char line[256];
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
    for (known = 0; known < 8192 && fgets(line, sizeof line, file);)
        if (sscanf(line, "%63[^=]=%127[^\n]", facts[known].key, facts[known].value) == 2) known++;
    fclose(file);
    for (int at = 0; at < known; at++)
        if (!strcmp(facts[at].key, "init")) {
            int code = atoi(facts[at].value);
            if (code < 0) for (;;) pause(); /* a driver that hangs */
            return code;
        }
    return OK;
}

static int find(const char *prefix, const char *name, char **value) {
    char key[128];
    snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "", name);
    for (int at = 0; at < known; at++)
        if (!strcmp(facts[at].key, key)) {
            *value = facts[at].value;
            return **value == '!' ? atoi(*value + 1) : OK;
        }
    return NOT_SUPPORTED;
}

static int number(const char *prefix, const char *name, u64 *out) {
    char *value;
    int code = find(prefix, name, &value);
    if (!code) *out = strtoull(value, NULL, 0);
    return code;
}

static int number32(const char *prefix, const char *name, uint *out) {
    u64 wide = 0;
    int code = number(prefix, name, &wide);
    if (!code) *out = (uint)wide;
    return code;
}

static int words(const char *prefix, const char *name, char *out, uint size) {
    char *value;
    int code = find(prefix, name, &value);
    if (!code) snprintf(out, size, "%s", value);
    return code;
}

static int handle(const char *key, void **out) {
    char *value, probe[64];
    snprintf(probe, sizeof probe, "%s.uuid", key);
    int code = find("", probe, &value);
    if (code == NOT_SUPPORTED) return NOT_FOUND;
    if (code) return code;
    snprintf(handles[handed], sizeof handles[0], "%s", key);
    *out = handles[handed++];
    return OK;
}

static int place(const char *prefix, const char *name, pci_info *out) {
    memset(out, 0, sizeof *out);
    int code = words(prefix, name, out->bus_id, sizeof out->bus_id);
    if (!code) sscanf(out->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    return code;
}

int nvmlInit_v2(void) { return load(); }
#ifndef OLD_DRIVER
int nvmlInitWithFlags(uint flags) { return load(); }
#endif
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *out, uint size) { return words("", "driver", out, size); }
int nvmlDeviceGetCount_v2(uint *out) { return number32("", "count", out); }
int nvmlDeviceGetHandleByIndex_v2(uint index, void **out) {
    char key[32];
    snprintf(key, sizeof key, "gpu.%u", index);
    return handle(key, out);
}
int nvmlDeviceGetName(void *gpu, char *out, uint size) { return words(gpu, "name", out, size); }
int nvmlDeviceGetUUID(void *gpu, char *out, uint size) { return words(gpu, "uuid", out, size); }
int nvmlDeviceGetMemoryInfo(void *gpu, memory_info *out) {
    memset(out, 0, sizeof *out);
    number(gpu, "memoryUsed", &out->used);
    return number(gpu, "memory", &out->total);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    for (int at = 0; at < known; at++) {
        char *end = strstr(facts[at].key, ".uuid");
        if (!end || end[5] || strcmp(facts[at].value, uuid)) continue;
        snprintf(handles[handed], sizeof handles[0], "%.*s", (int)(end - facts[at].key), facts[at].key);
        *out = handles[handed++];
        return OK;
    }
    return NOT_FOUND;
}
int nvmlDeviceGetUtilizationRates(void *gpu, utilization *out) {
    number32(gpu, "busyMemory", &out->memory);
    return number32(gpu, "busy", &out->gpu);
}
int nvmlDeviceGetTopologyCommonAncestor(char *a, char *b, uint *out) {
    char name[64];
    snprintf(name, sizeof name, "ancestor.%s", b);
    return number32(a, name, out);
}
int nvmlDeviceGetTotalEccErrors(void *gpu, uint type, uint counter, u64 *out) {
    char name[64];
    snprintf(name, sizeof name, "ecc.%u.%u", type, counter);
    return number(gpu, name, out);
}
int nvmlDeviceGetRetiredPages(void *gpu, uint cause, uint *count, u64 *pages) {
    uint have = 0;
    char name[64];
    snprintf(name, sizeof name, "retired.%u", cause);
    int code = number32(gpu, name, &have);
    if (code) return code;
    if (!pages) { *count = have; return have ? INSUFFICIENT_SIZE : OK; }
    for (uint at = 0; at < have && at < *count; at++) pages[at] = 4096ull * at;
    *count = have;
    return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *gpu, uint *out) { return number32(gpu, "retired.pending", out); }
int nvmlDeviceGetPersistenceMode(void *gpu, uint *out) { return number32(gpu, "persistence", out); }
int nvmlDeviceGetEccMode(void *gpu, uint *current, uint *pending) {
    int code = number32(gpu, "eccMode", current);
    *pending = *current;
    number32(gpu, "eccPending", pending);
    return code;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *gpu, uint *out) { return number32(gpu, "width", out); }
int nvmlDeviceGetMaxPcieLinkWidth(void *gpu, uint *out) { return number32(gpu, "widthMost", out); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, uint *out) { return number32(gpu, "speed", out); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *gpu, uint *out) { return number32(gpu, "speedMost", out); }
int nvmlDeviceGetPcieReplayCounter(void *gpu, uint *out) { return number32(gpu, "replays", out); }
int nvmlDeviceGetTemperature(void *gpu, uint sensor, uint *out) { return number32(gpu, "temperature", out); }
int nvmlDeviceGetTemperatureThreshold(void *gpu, uint which, uint *out) {
    return which == 1 ? number32(gpu, "temperatureSlows", out) : NOT_SUPPORTED;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, u64 *out) { return number(gpu, "slowed", out); }
int nvmlDeviceGetPerformanceState(void *gpu, uint *out) { return number32(gpu, "performance", out); }
int nvmlDeviceGetClockInfo(void *gpu, uint which, uint *out) { return number32(gpu, "clock", out); }
int nvmlDeviceGetMaxClockInfo(void *gpu, uint which, uint *out) { return number32(gpu, "clockMost", out); }
int nvmlDeviceGetPowerUsage(void *gpu, uint *out) { return number32(gpu, "milliwatts", out); }

#ifndef OLD_DRIVER
int nvmlDeviceGetFieldValues(void *gpu, int count, field_value *out) {
    char name[64];
    for (int at = 0; at < count; at++) {
        snprintf(name, sizeof name, "field.%u", out[at].field);
        out[at].code = number(gpu, name, &out[at].value);
    }
    return OK;
}
int nvmlDeviceGetGpuFabricInfo(void *gpu, fabric_info *out) {
    uint state = 0, status = 0;
    int code = number32(gpu, "fabric.state", &state);
    number32(gpu, "fabric.status", &status);
    memset(out, 0, sizeof *out);
    out->state = (unsigned char)state;
    out->status = status;
    return code;
}
int nvmlSystemGetCudaDriverVersion(int *out) { return number32("", "cuda", (uint *)out); }
int nvmlDeviceGetPciInfo_v3(void *gpu, pci_info *out) { return place(gpu, "pci", out); }
int nvmlDeviceGetNvLinkState(void *gpu, uint link, uint *out) {
    char name[64];
    snprintf(name, sizeof name, "link.%u.state", link);
    return number32(gpu, name, out);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, uint link, pci_info *out) {
    char name[64];
    snprintf(name, sizeof name, "link.%u.pci", link);
    return place(gpu, name, out);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *gpu, uint link, uint *out) {
    char name[64];
    snprintf(name, sizeof name, "link.%u.type", link);
    return number32(gpu, name, out);
}
int nvmlDeviceGetRemappedRows(void *gpu, uint *corrected, uint *uncorrected, uint *pending, uint *failed) {
    int code = number32(gpu, "rows.failed", failed);
    if (code) return code;
    *corrected = *uncorrected = *pending = 0;
    number32(gpu, "rows.corrected", corrected);
    number32(gpu, "rows.uncorrected", uncorrected);
    number32(gpu, "rows.pending", pending);
    return OK;
}
int nvmlDeviceGetMigMode(void *gpu, uint *current, uint *pending) {
    int code = number32(gpu, "mig", current);
    *pending = *current;
    return code;
}
int nvmlDeviceGetMaxMigDeviceCount(void *gpu, uint *out) { *out = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(char *gpu, uint index, void **out) {
    char key[64];
    snprintf(key, sizeof key, "%s.mig.%u", gpu, index);
    return handle(key, out);
}
int nvmlDeviceGetGpuInstanceId(void *mig, uint *out) { return number32(mig, "instance", out); }
int nvmlDeviceGetGpuInstanceById(char *gpu, uint id, void **out) {
    char key[64];
    for (int at = 0; at < 7; at++) {
        uint found = ~0u;
        snprintf(key, sizeof key, "%s.mig.%d", gpu, at);
        if (!number32(key, "instance", &found) && found == id) return handle(key, out);
    }
    return NOT_FOUND;
}
int nvmlGpuInstanceGetInfo(void *mig, instance_info *out) {
    memset(out, 0, sizeof *out);
    int code = number32(mig, "start", &out->start);
    return code ? code : number32(mig, "size", &out->size);
}
int nvmlDeviceGetAttributes_v2(void *mig, attributes *out) {
    memset(out, 0, sizeof *out);
    number32(mig, "slices", &out->gpu_slices);
    number32(mig, "computeSlices", &out->compute_slices);
    return number(mig, "memoryMb", &out->memory_mb);
}
int nvmlDeviceGetNumaNodeId(void *gpu, uint *out) { return number32(gpu, "numaNode", out); }
#endif
