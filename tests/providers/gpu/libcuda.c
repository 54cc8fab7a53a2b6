/* A stand-in for libcuda, a test double: no GPU. It gives each process the part of a made-up card that MPS's variables
   say, as MPS's client would: memory by its limit, time by its percentage. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOTAL (8ull << 30)
static uint64_t taken;

static int percent(void) {
    const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    return text ? atoi(text) : 100;
}

static uint64_t limit(void) {
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    unsigned long long mebibytes;
    return text && sscanf(text, "0=%lluM", &mebibytes) == 1 ? mebibytes << 20 : TOTAL;
}

int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int at) { *device = 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Stand-in"); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = percent(); return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = limit() - taken; *total = limit(); return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t size) {
    if (taken + size > limit()) return 2;
    taken += size;
    *pointer = size;
    return 0;
}
int cuMemFree_v2(uint64_t pointer) { taken -= pointer; return 0; }
int cuModuleLoadData(void **module, const void *image) { return strstr(image, "burn") ? 0 : 200; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shm,
                   void *stream, void **parameters, void **extra) {
    return gx && bx && parameters && parameters[0] ? 0 : 1;
}
int cuCtxSynchronize(void) { usleep(500000 / percent()); return 0; }
