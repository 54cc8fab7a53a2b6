/* A stand-in for libcuda, a test double: no GPU. It gives each process the part of a made-up card that MPS's variables
   say, as MPS's client would: memory by its limit, time by its percentage. How it is built says what is wrong with it:
   -DLOOSE: it holds nobody to anything; -DHANGS: its first call never ends; -DBROKEN=n: its first call gives n;
   -DSLICE: it is an eighth of the card; -DTIGHT: nothing can be allocated; -DODD: a limit is told by error 1;
   Who cannot enter MPS's pipe directory is no client of MPS: its variables are nothing to him, as in the real one.
   -DONE_USER: a second client of MPS waits for the first, as another user's does without -multiuser-server. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#ifdef SLICE
#define TOTAL (1ull << 30)
#define COUNT 14
#else
#define TOTAL (8ull << 30)
#define COUNT 100
#endif
#ifndef BROKEN
#define BROKEN 0
#endif
static uint64_t taken;

static const char *told(const char *name) {
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    return pipe && access(pipe, X_OK) ? 0 : getenv(name);
}

static int percent(void) {
    const char *text = told("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
#ifdef LOOSE
    text = 0;
#endif
    return text ? atoi(text) : 100;
}

static uint64_t limit(void) {
    const char *text = told("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    unsigned long long mebibytes;
#ifdef LOOSE
    text = 0;
#endif
    return text && sscanf(text, "0=%lluM", &mebibytes) == 1 ? mebibytes << 20 : TOTAL;
}

int cuInit(unsigned flags) {
#ifdef HANGS
    for (;;) pause();
#endif
#ifdef ONE_USER
    char path[4096];
    snprintf(path, sizeof path, "%s/user", getenv("CUDA_MPS_PIPE_DIRECTORY"));
    int lock = open(path, O_RDONLY);
    flock(lock < 0 ? open(path, O_CREAT | O_RDONLY, 0644) : lock, LOCK_EX);
#endif
    return BROKEN;
}
int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_OF_THE_DOUBLE"; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = TOTAL; return 0; }
int cuDeviceGet(int *device, int at) { *device = 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Stand-in"); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = COUNT * percent() / 100; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = limit() - taken; *total = limit(); return 0; }
int cuMemAlloc_v2(uint64_t *pointer, size_t size) {
#ifdef TIGHT
    return 2;
#endif
#ifdef ODD
    if (taken + size > limit()) return 1;
#endif
    if (taken + size > limit()) return 2;
    taken += size;
    *pointer = size;
    return 0;
}
int cuMemFree_v2(uint64_t pointer) { taken -= pointer; return 0; }
int cuMemHostAlloc(void **host, size_t size, unsigned flags) { return (*host = malloc(size)) ? 0 : 2; }
int cuMemFreeHost(void *host) { free(host); return 0; }
int cuMemcpyHtoD_v2(uint64_t pointer, const void *host, size_t size) { usleep(size >> 14); return host ? 0 : 1; }
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    *function = strcmp(symbol, "cuMemAlloc") ? 0 : (void *)cuMemAlloc_v2;
    *status = *function ? 0 : 1;
    return *function ? 0 : 500;
}
int cuModuleLoadData(void **module, const void *image) { return strstr(image, "burn") ? 0 : 200; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shm,
                   void *stream, void **parameters, void **extra) {
    return gx && bx && parameters && parameters[0] ? 0 : 1;
}
int cuCtxSynchronize(void) { usleep(500000 / percent()); return 0; }
