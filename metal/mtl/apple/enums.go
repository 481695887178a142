package apple

// Metal's enumerations, as far as the device uses them. A test holds names and
// values against testdata/metal.tsv.
type (
	mtlResourceOptions     uint
	mtlPipelineOption      uint
	mtlLanguageVersion     uint
	mtlFunctionType        uint
	mtlDataType            uint
	mtlBindingType         int
	mtlBindingAccess       uint
	mtlDispatchType        uint
	mtlCommandBufferStatus uint
	mtlBarrierScope        uint
	mtlCaptureDestination  int
)

const (
	mtlResourceStorageModeShared mtlResourceOptions = 0

	mtlPipelineOptionBindingInfo    mtlPipelineOption = 1
	mtlPipelineOptionBufferTypeInfo mtlPipelineOption = 2

	mtlLanguageVersion3_1 mtlLanguageVersion = 0x30001

	mtlFunctionTypeKernel mtlFunctionType = 3

	mtlBindingTypeBuffer            mtlBindingType = 0
	mtlBindingTypeThreadgroupMemory mtlBindingType = 1

	mtlBindingAccessReadOnly mtlBindingAccess = 0

	mtlDispatchTypeConcurrent mtlDispatchType = 1

	mtlCommandBufferStatusCompleted mtlCommandBufferStatus = 4
	mtlCommandBufferStatusError     mtlCommandBufferStatus = 5

	mtlBarrierScopeBuffers mtlBarrierScope = 1

	mtlCaptureDestinationGPUTraceDocument mtlCaptureDestination = 2
)

// The types of constants and elements. Those of 2 to 4 components follow a
// scalar's at the next numbers; testdata/metal.tsv has those of 4.
const (
	mtlDataTypeFloat  mtlDataType = 3
	mtlDataTypeHalf   mtlDataType = 16
	mtlDataTypeInt    mtlDataType = 29
	mtlDataTypeUInt   mtlDataType = 33
	mtlDataTypeShort  mtlDataType = 37
	mtlDataTypeUShort mtlDataType = 41
	mtlDataTypeChar   mtlDataType = 45
	mtlDataTypeUChar  mtlDataType = 49
	mtlDataTypeBool   mtlDataType = 53
	mtlDataTypeLong   mtlDataType = 81
	mtlDataTypeULong  mtlDataType = 85
	mtlDataTypeBFloat mtlDataType = 121
)
