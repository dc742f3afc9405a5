"""The broker: the process through which every byte between ranks passes."""
