/* A stand-in for HAMi-core's libvgpu.so, a test double: like it, it is asked for the driver's functions in place of the
   C library, and answers with functions of its own that count. -DBLIND: it is preloaded and notices nothing, as was seen
   with a driver that it did not know; -DBY_NAME_ONLY: it does not see what the driver itself looks up; -DTELLS="path": it
   writes down who loads it. Where it cannot open its cache it ends the process, as the real one does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TELLS
#include <unistd.h>
__attribute__((constructor)) static void tell(void) {
    FILE *file = fopen(TELLS, "a");
    fprintf(file, "%u\n", geteuid());
    fclose(file);
}
#endif

#ifdef BLIND
int vgpu_is_here;
#else
typedef void *(*find)(void *, const char *);
typedef int (*allocate)(uint64_t *, size_t);
typedef int (*look_up)(const char *, void **, int, uint64_t, int *);
static allocate real_allocate;
static look_up real_look_up;
static uint64_t taken;

__attribute__((constructor)) static void open_cache(void) {
    const char *path = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    FILE *file = path ? fopen(path, "a") : 0;
    if (path && !file) {
        fprintf(stderr, "Fail to open shrreg %s\n", path);
        exit(1);
    }
}

static uint64_t limit(void) {
    const char *text = getenv("CUDA_DEVICE_MEMORY_LIMIT_0");
    unsigned long long mebibytes;
    return text && sscanf(text, "%llum", &mebibytes) == 1 ? mebibytes << 20 : UINT64_MAX;
}

static int counted(uint64_t *pointer, size_t size) {
    if (taken + size > limit()) return 2;
    int code = real_allocate(pointer, size);
    if (!code) taken += size;
    return code;
}

static int freed(uint64_t pointer) {
    taken -= pointer;
    return 0;
}

static int looked_up(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    int code = real_look_up(symbol, function, version, flags, status);
    if (!code && !strcmp(symbol, "cuMemAlloc")) {
        real_allocate = (allocate)*function;
        *function = (void *)counted;
    }
    return code;
}

static find real(void) {
    static find found;
    const char *versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", 0};
    for (int at = 0; !found && versions[at]; at++) found = (find)dlvsym(RTLD_NEXT, "dlsym", versions[at]);
    return found;
}

void *dlsym(void *handle, const char *name) {
    void *found = real()(handle, name);
    if (found && !strcmp(name, "cuMemAlloc_v2")) {
        real_allocate = (allocate)found;
        return (void *)counted;
    }
    if (found && !strcmp(name, "cuMemFree_v2")) return (void *)freed;
#ifndef BY_NAME_ONLY
    if (found && !strcmp(name, "cuGetProcAddress_v2")) {
        real_look_up = (look_up)found;
        return (void *)looked_up;
    }
#endif
    return found;
}
#endif
