/* Stands in for NVIDIA's libnvidia-ml: two cards, and what the file named by NVML_STUB says.
 * Its first number is the bytes in use on each card; then follow pairs of a pid and its bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_t;

static const char *UUIDS[] = {"GPU-first", "GPU-second"};
static int cards[] = {0, 1};

static FILE *said(void) { return fopen(getenv("NVML_STUB"), "r"); }

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "as the stub says"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **card) {
    if (index > 1) return 2;
    *card = &cards[index];
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **card) {
    for (unsigned int index = 0; index < 2; index++)
        if (!strcmp(uuid, UUIDS[index])) { *card = &cards[index]; return 0; }
    return 6;
}

int nvmlDeviceGetUUID(void *card, char *uuid, unsigned int size) {
    snprintf(uuid, size, "%s", UUIDS[*(int *)card]);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *card, memory_t *memory) {
    FILE *file = said();
    (void)card;
    if (!file) return 15; /* NVML_ERROR_GPU_IS_LOST */
    memory->total = 80ULL << 30;
    if (fscanf(file, "%llu", &memory->used) != 1) memory->used = 0;
    memory->free = memory->total - memory->used;
    fclose(file);
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *card, unsigned int *count, process_t *out) {
    FILE *file = said();
    unsigned long long ignored, used;
    unsigned int pid, found = 0, room = *count;
    (void)card;
    if (!file) return 15;
    if (fscanf(file, "%llu", &ignored) != 1) ignored = 0;
    while (fscanf(file, "%u %llu", &pid, &used) == 2) {
        if (out && found < room) out[found] = (process_t){pid, used, 0, 0};
        found++;
    }
    fclose(file);
    *count = found;
    return found > room ? 7 : 0; /* NVML_ERROR_INSUFFICIENT_SIZE */
}
