/* A library with the interface of NVIDIA's management library (nvml.h), for tests of the ctypes path.
 *
 * It has FAKE_NVML_DEVICES devices (4), and what they read is a function of time alone, so that tests know it: device i
 * draws 100 + 50 i watts, and 40 sin(t) more if FAKE_NVML_WAVE is set. Its energy counter is the exact integral of that
 * since the library was opened. A file named by FAKE_NVML_STATE changes them while they are read: `lost 1` takes device 1
 * off the bus, `ecc 2` adds an uncorrected memory error to device 2, each in a line of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char name[32]; } pci_t;
typedef union { double d; int si; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; unsigned short us; } value_t;
typedef struct { unsigned id, scope; long long timestamp, latency; int type, result; value_t value; } field_t;
typedef struct { void *device; unsigned long long type, data; unsigned gpu, compute; } event_t;

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_LOADED = 9, TIMEOUT = 10, LOST = 15 };

static char cells[64];
static double began;
static int told;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
static int index_of(void *device) { return (int)((char *)device - cells); }
static int happened(const char *what, void *device) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char word[16];
    int index, found = 0;
    if (!file) return 0;
    while (fscanf(file, "%15s %d", word, &index) == 2) found |= !strcmp(word, what) && index == index_of(device);
    fclose(file);
    return found;
}
static double wave(void) { return setting("FAKE_NVML_WAVE", 0) ? 40.0 : 0.0; }
static double watts(int index) { return 100.0 + 50.0 * index + wave() * sin(now() - began); }
static double joules(int index) {
    double t = now() - began;
    return (100.0 + 50.0 * index) * t + wave() * (1.0 - cos(t));
}

int nvmlInit_v2(void) {
    if (setting("FAKE_NVML_HANGS", 0)) for (;;) { struct timespec t = {3600, 0}; nanosleep(&t, NULL); }
    if (setting("FAKE_NVML_NO_DRIVER", 0)) return NOT_LOADED;
    if (began == 0) began = now();
    return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = setting("FAKE_NVML_DEVICES", 4); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &cells[index]; return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "535.54.03"); return SUCCESS; }
int nvmlDeviceGetName(void *device, char *text, unsigned length) {
    int odd = setting("FAKE_NVML_MIXED", 0) && index_of(device) == 1;
    snprintf(text, length, "%s", odd ? "NVIDIA T400" : "NVIDIA A100-SXM4-80GB");
    return SUCCESS;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    snprintf(text, length, "GPU-0000000%d", index_of(device));
    return SUCCESS;
}
int nvmlDeviceGetVbiosVersion(void *device, char *text, unsigned length) {
    (void)device;
    snprintf(text, length, "92.00.45.00.05");
    return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->name, sizeof pci->name, "00000000:%02X:00.0", index_of(device) + 1);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    if (happened("lost", device)) return LOST;
    memory->total = 80ull << 30;
    memory->used = (unsigned long long)(index_of(device) + 1) << 30;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *found) {
    if (happened("lost", device)) return LOST;
    found->gpu = 90 + index_of(device);
    found->memory = 40;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    if (happened("lost", device)) return LOST;
    *milliwatts = (unsigned)(watts(index_of(device)) * 1000);
    return SUCCESS;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    if (happened("lost", device)) return LOST;
    if (setting("FAKE_NVML_NO_ENERGY", 0)) return NOT_SUPPORTED;
    *millijoules = (unsigned long long)(joules(index_of(device)) * 1000);
    return SUCCESS;
}
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *milliwatts) { (void)device; *milliwatts = 400000; return SUCCESS; }
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *degrees) { if (happened("lost", device)) return LOST; (void)sensor; *degrees = 50 + index_of(device); return SUCCESS; }
int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *mhz) { if (happened("lost", device)) return LOST; *mhz = kind == 1 ? 1410 : 1593; return SUCCESS; }
/* Only the older name: what falls back to it is tested. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) { if (happened("lost", device)) return LOST; *bits = index_of(device) == 3 ? 0x40 : 0x4; return SUCCESS; }
int nvmlDeviceGetTotalEccErrors(void *device, unsigned kind, unsigned counter, unsigned long long *count) {
    (void)counter;
    if (happened("lost", device)) return LOST;
    *count = kind == 1 && index_of(device) == 2 ? 2 : 0;
    if (kind == 1 && happened("ecc", device)) ++*count;
    return SUCCESS;
}
int nvmlDeviceGetEccMode(void *device, unsigned *current, unsigned *pending) { (void)device; *current = *pending = 1; return SUCCESS; }
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) { (void)device; (void)current; (void)pending; return NOT_SUPPORTED; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width) { (void)device; *width = 16; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width) { (void)device; *width = 16; return SUCCESS; }
/* Two links are up. Devices 0 and 1 are on one board, so are 2 and 3; those are on another socket. */
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active) { (void)device; if (link >= 4) return INVALID; *active = link < 2; return SUCCESS; }
int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, unsigned *level) { *level = index_of(one) / 2 == index_of(other) / 2 ? 0 : 50; return SUCCESS; }
int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *count) { if (happened("lost", device)) return LOST; *count = 7; return SUCCESS; }
int nvmlDeviceGetFieldValues(void *device, int count, field_t *values) {
    if (happened("lost", device)) return LOST;
    for (int i = 0; i < count; i++) {
        double seconds = now() - began;
        values[i].result = SUCCESS;
        values[i].type = 3;
        switch (values[i].id) {
            case 138: case 139: values[i].value.ull = (unsigned long long)(seconds * 1e6); break; /* KiB: 1.024 GB/s */
            case 197: case 198: values[i].value.ull = (unsigned long long)(seconds * 2e9); break; /* bytes: 2 GB/s */
            case 142: case 143: values[i].value.ull = 1; break;
            default: values[i].result = NOT_SUPPORTED;
        }
    }
    return SUCCESS;
}
int nvmlEventSetCreate(void **set) { *set = &told; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { (void)device; (void)types; (void)set; return SUCCESS; }
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned milliseconds) {
    (void)set; (void)milliseconds;
    if (told || !setting("FAKE_NVML_XID", 0)) return TIMEOUT;
    told = 1;
    event->device = &cells[1];
    event->type = 0x8;
    event->data = setting("FAKE_NVML_XID", 0);
    return SUCCESS;
}
